; A summary of a two-core kernel.
; run: info %e/rmsnorm_2core.klr
