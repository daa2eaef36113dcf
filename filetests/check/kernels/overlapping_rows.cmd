; Both cores store rows 112 to 127 of the output.
; run: check %e/kernels/overlapping_rows.klr
; run: run %e/kernels/overlapping_rows.klr --random 42
