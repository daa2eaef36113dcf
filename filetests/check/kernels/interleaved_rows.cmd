; Core 0 stores the even rows of the output, core 1 the odd ones: strided views that never touch.
; run: check %e/kernels/interleaved_rows.klr
; run: run %e/kernels/interleaved_rows.klr --random 42
; run: run %e/kernels/interleaved_rows.klr --random 42 --schedule late -q
; run: run %e/kernels/interleaved_rows.klr --random 42 --schedule seed=3 -q
; run: run %e/kernels/interleaved_rows.klr --random 42 --level bir -q
