; Bundles for programs: what encoding gave, and every record with its fields.
; run: encode %d/klr/16_single_core_add_f32.klr --format json
; run: disasm %d/klr/16_single_core_add_f32.klr --format json
; run: encode %d/klr/16_single_core_add_f32.klr -o %t/k.tdb
; run: info %t/k.tdb
