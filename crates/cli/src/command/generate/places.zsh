_haul_places() {
    local -a places=(${(f)"$(_call_program places haul __places -- ${(q)${(Q)PREFIX}} 2>/dev/null)"})
    (( $#places )) && compadd -S '' -- $places
    [[ $PREFIX == *:* ]] || _files
}

_haul_hosts() {
    local -a hosts=(${(f)"$(_call_program hosts haul __places --hosts -- ${(q)${(Q)PREFIX}} 2>/dev/null)"})
    compadd -- $hosts
}
