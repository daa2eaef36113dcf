; Folders of per-core modules where a file stands in the way (the specification, file 05 §6.2: vendor codes 1649 and 1650).
; run: lower %d/codes/S0021/pass.bir --emit bir --format json -o %t/one
; run: lower %d/codes/N0008/pass.bir --emit lowered --format json -o %t/one
; run: lower %d/codes/N0008/pass.bir --emit lowered --format json -o %t/two
; run: info %t/two
