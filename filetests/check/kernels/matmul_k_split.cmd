; Matmul with the contracted dimension split over the cores: two products accumulate in PSUM, then each core
; sends the half of the partial sums that the other one finishes.
; run: check %e/kernels/matmul_k_split.klr
; run: run %e/kernels/matmul_k_split.klr --random 42
; run: run %e/kernels/matmul_k_split.klr --random 42 --schedule late -q
; run: run %e/kernels/matmul_k_split.klr --random 42 --schedule seed=3 -q
; run: run %e/kernels/matmul_k_split.klr --random 42 --level bir -q
