; Softmax of rows split over the cores: the maxima are exchanged, then the sums.
; run: check %e/kernels/softmax_pair.klr
; run: run %e/kernels/softmax_pair.klr --random 42
; run: run %e/kernels/softmax_pair.klr --random 42 --schedule late -q
; run: run %e/kernels/softmax_pair.klr --random 42 --schedule seed=3 -q
; run: run %e/kernels/softmax_pair.klr --random 42 --level bir -q
