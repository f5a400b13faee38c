complete -c haul -n "__fish_haul_using_subcommand copy cp move mv sync check ls stat hash" -a '(haul __places -- (commandline -ct) 2>/dev/null)'
complete -c haul -n "__fish_haul_using_subcommand deploy doctor config" -f -a '(haul __places --hosts -- (commandline -ct) 2>/dev/null)'
