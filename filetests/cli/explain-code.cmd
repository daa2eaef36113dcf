; The page of a code.
; run: explain U0003
; run: explain Z9999
