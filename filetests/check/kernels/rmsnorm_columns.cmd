; Rmsnorm of two row tiles; each core has half of the columns, the sums of squares are exchanged.
; run: check %e/kernels/rmsnorm_columns.klr
; run: run %e/kernels/rmsnorm_columns.klr --random 42
; run: run %e/kernels/rmsnorm_columns.klr --random 42 --schedule late -q
; run: run %e/kernels/rmsnorm_columns.klr --random 42 --schedule seed=3 -q
; run: run %e/kernels/rmsnorm_columns.klr --random 42 --level bir -q
