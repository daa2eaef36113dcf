; What `lower` says about its passes: statistics, a program after one pass, times, the verifier after each pass.
; run: lower filetests/lower/a_small_swap.bir --emit lowered --stats -o %t/out.bir
; run: lower filetests/lower/a_small_swap.bir --emit lowered --print-after lower-local-collectives -o %t/out.bir
; run(no numbers): lower filetests/lower/a_small_swap.bir --emit lowered --time-passes -o %t/out.bir
; run: lower filetests/lower/a_small_swap.bir --emit lowered --verify-each -o %t/out.bir
; run: lower filetests/lower/a_small_swap.bir --emit lowered --print-after no-such-pass -o %t/out.bir
