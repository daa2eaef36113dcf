; The job of the README, and the executed instructions.
; run: run %e/rmsnorm_2core.klr --random 42 -o %t/out --stats text
