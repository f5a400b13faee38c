_haul_places() {
    _haul "$@"
    local line="${COMP_LINE:0:COMP_POINT}"
    # Where the words end is not found out for quotes: those are left to bash.
    [[ $line == *[\"\'\\]* ]] && return
    local word="${line##*[[:space:]]}" place
    local -a places=() found=()
    [[ $word == -* ]] && return
    case "${COMP_WORDS[1]}" in
        copy|cp|move|mv|sync|check|ls|stat|hash)
            mapfile -t places < <("$1" __places -- "$word" 2>/dev/null)
            ;;
        deploy|doctor|config)
            mapfile -t places < <("$1" __places --hosts -- "$word" 2>/dev/null)
            ;;
    esac
    (( ${#places[@]} )) || return
    # A colon begins another word for bash, which puts back what stands behind it alone.
    local ahead=""
    [[ $COMP_WORDBREAKS == *:* && $word == *:* ]] && ahead="${word%"${word##*:}"}"
    for place in "${places[@]}"; do
        printf -v place %q "${place#"$ahead"}"
        found+=("$place")
    done
    if [[ $word != *:* ]]; then
        while IFS= read -r place; do
            [[ -d $place ]] && place+=/
            printf -v place %q "$place"
            found+=("$place")
        done < <(compgen -f -- "$word")
    fi
    COMPREPLY=("${found[@]}")
    [[ ${#found[@]} -eq 1 && ${found[0]} == *[:/] ]] && compopt -o nospace
    return 0
}

complete -F _haul_places -o bashdefault -o default haul
