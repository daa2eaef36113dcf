; The same, but core 0 also computes with the padded rows that it received.
; run: check %e/kernels/uneven_tokens_padded_rows_read.klr
; run: run %e/kernels/uneven_tokens_padded_rows_read.klr --random 42
