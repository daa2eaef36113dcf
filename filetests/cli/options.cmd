; Options that cannot be met name their rule.
; run: check %e/rmsnorm_2core.klr --lnc 3
; run: check %e/rmsnorm_2core.klr --target trn1
; run: check %e/rmsnorm_2core.klr --target trn9
; run: run %e/rmsnorm_2core.klr --random 1 --schedule never
