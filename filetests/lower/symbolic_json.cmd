; BIR JSON of one module without a core id that asks for its shard id: two cores unless --lnc says otherwise; core 0 stores.
; run: check filetests/lower/symbolic.json
; run: lower filetests/lower/symbolic.json --emit lowered
; run: run filetests/lower/symbolic.json --random 1
