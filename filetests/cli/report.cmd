; A page is written whatever the verdict is; without inputs when nothing is decided by data.
; run: report %e/rmsnorm_2core.klr -o %t/page.html
; run: report %e/rmsnorm_2core.klr -o %t/page.html -q --target trn3 --back-end unit
; run: report %e/kernels/shared_exchange_no_barrier_1.klr -o %t/race.html
; run: report %e/kernels/barrier_loop_unequal.klr -o %t/stuck.html
; run: report %e/rmsnorm_2core.klr -o %t/page.html --format json
; run: report %d/klr/18_loop_cmpbranch_f32.klr -o %t/page.html
; run: report filetests/check/undefined/branch_clean.bir -o %t/data.html
; run: report filetests/check/undefined/branch_clean.bir -o %t/data.html --random 3
; run: report %d/klr-old/add_one.python.klr -o %t/old.html
; run: report %e/rmsnorm_2core.klr -o %e/rmsnorm_2core.klr/page.html
; run: report %e/rmsnorm_2core.klr
