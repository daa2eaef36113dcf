; Every number of the timing model with its source and certainty; a calibration replaces some.
; run: time --list-params
; run: time --list-params --preset conservative --calibration filetests/cli/calibration.json --format json
; run: time --list-params --calibration filetests/cli/time-params.cmd
