; 128 and 64 tokens: the sends are padded to 128 rows, the receiver uses the valid ones only.
; run: check %e/kernels/uneven_tokens.klr
; run: run %e/kernels/uneven_tokens.klr --random 42
; run: run %e/kernels/uneven_tokens.klr --random 42 --schedule late -q
; run: run %e/kernels/uneven_tokens.klr --random 42 --schedule seed=3 -q
; run: run %e/kernels/uneven_tokens.klr --random 42 --level bir -q
