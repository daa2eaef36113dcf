; Files that are no traced kernel of the current layout: exit 2, one P error.
; run: check README.md
; run: check testdata/klr/manifest.json
; run: check nowhere.klr
; run: check %d/klr-old/add_one.python.klr
