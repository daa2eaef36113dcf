; Rmsnorm of bfloat16 rows sharded over the cores: nothing is exchanged.
; run: check %e/kernels/rmsnorm_rows.klr
; run: run %e/kernels/rmsnorm_rows.klr --random 42
; run: run %e/kernels/rmsnorm_rows.klr --random 42 --schedule late -q
; run: run %e/kernels/rmsnorm_rows.klr --random 42 --schedule seed=3 -q
; run: run %e/kernels/rmsnorm_rows.klr --random 42 --level bir -q
