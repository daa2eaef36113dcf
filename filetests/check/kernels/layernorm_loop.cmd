; Layernorm in a run-time loop over row tiles; sum and sum of squares are packed into one exchange, whose
; receive buffer every iteration uses again.
; run: check %e/kernels/layernorm_loop.klr
; run: run %e/kernels/layernorm_loop.klr --random 42
; run: run %e/kernels/layernorm_loop.klr --random 42 --schedule late -q
; run: run %e/kernels/layernorm_loop.klr --random 42 --schedule seed=3 -q
; run: run %e/kernels/layernorm_loop.klr --random 42 --level bir -q
