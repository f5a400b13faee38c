//! The parts of completions that complete hosts and remote paths; clap completes only local files.
//! They call `haul __places`.

use crate::args::CompletedShell;

/// Appended to clap's script.
const BASH: &str = r#"
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
"#;

/// Inserted before clap's function.
const ZSH: &str = r#"
_haul_places() {
    local -a places=(${(f)"$(_call_program places haul __places -- ${(q)${(Q)PREFIX}} 2>/dev/null)"})
    (( $#places )) && compadd -S '' -- $places
    [[ $PREFIX == *:* ]] || _files
}

_haul_hosts() {
    local -a hosts=(${(f)"$(_call_program hosts haul __places --hosts -- ${(q)${(Q)PREFIX}} 2>/dev/null)"})
    compadd -- $hosts
}

"#;

/// Appended to clap's script.
const FISH: &str = r#"
complete -c haul -n "__fish_haul_using_subcommand copy cp move mv sync check ls stat hash" -a '(haul __places -- (commandline -ct) 2>/dev/null)'
complete -c haul -n "__fish_haul_using_subcommand deploy doctor config" -f -a '(haul __places --hosts -- (commandline -ct) 2>/dev/null)'
"#;

/// Adds hosts and their paths to the script that clap generated for `shell`.
pub(super) fn with_remote_completions(shell: CompletedShell, script: &str) -> String {
    match shell {
        CompletedShell::Bash => format!("{script}{BASH}"),
        CompletedShell::Fish => format!("{script}{FISH}"),
        CompletedShell::Zsh => {
            // compinit reads the first line.
            let (first, rest) = script.split_once('\n').unwrap_or((script, ""));
            let mut lines = format!("{first}\n{ZSH}");
            for line in rest.lines() {
                let is_place = line.starts_with("'*::paths ");
                let line = match is_place {
                    true => line.replace(":_files' ", ":_haul_places' "),
                    false => line.replace(":_hosts' ", ":_haul_hosts' "),
                };
                lines.push_str(&line);
                lines.push('\n');
            }
            lines
        }
    }
}
