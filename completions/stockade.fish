# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_stockade_global_optspecs
    string join \n h/help V/version
end

function __fish_stockade_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_stockade_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_stockade_using_subcommand
    set -l cmd (__fish_stockade_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c stockade -n "__fish_stockade_needs_command" -s h -l help -d 'Print help'
complete -c stockade -n "__fish_stockade_needs_command" -s V -l version -d 'Print version'
complete -c stockade -n "__fish_stockade_needs_command" -f -a "run" -d 'Run one program confined, standard input and output passed through'
complete -c stockade -n "__fish_stockade_needs_command" -f -a "shell" -d 'An interactive confined bash on a pseudo-terminal of its own'
complete -c stockade -n "__fish_stockade_needs_command" -f -a "doctor" -d 'What this host can enforce, what is missing and how to get it'
complete -c stockade -n "__fish_stockade_needs_command" -f -a "explain" -d 'Show the effective policy as rules; for a path or a host, whether it is allowed and by which rule'
complete -c stockade -n "__fish_stockade_needs_command" -f -a "verify" -d 'Try every promise on this host, in sandboxes and without, on throw-away targets; exit status 1 when one is not kept'
complete -c stockade -n "__fish_stockade_needs_command" -f -a "journal" -d 'Read the execution journal'
complete -c stockade -n "__fish_stockade_needs_command" -f -a "mcp" -d 'Serve the tools over the Model Context Protocol on standard input and output'
complete -c stockade -n "__fish_stockade_needs_command" -f -a "completions" -d 'Print a completion script for a shell'
complete -c stockade -n "__fish_stockade_needs_command" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c stockade -n "__fish_stockade_using_subcommand run" -l mode -d 'What the command may do: read-only, workspace-write or danger-full-access [default: read-only]' -r
complete -c stockade -n "__fish_stockade_using_subcommand run" -l workspace -d 'Root that workspace-write may write under [default: the current directory]' -r -F
complete -c stockade -n "__fish_stockade_using_subcommand run" -l workdir -d 'Where the command starts [default: the workspace]' -r -F
complete -c stockade -n "__fish_stockade_using_subcommand run" -l policy -d 'Policy file, or the name of a shipped one [default: the shipped policy of the mode]' -r
complete -c stockade -n "__fish_stockade_using_subcommand run" -l write -d 'Make a path writable (repeatable; the most specific path wins, whatever the order)' -r -F
complete -c stockade -n "__fish_stockade_using_subcommand run" -l deny-write -d 'Make a path read-only within a writable one (repeatable)' -r -F
complete -c stockade -n "__fish_stockade_using_subcommand run" -l deny-read -d 'Mask a path from reading and writing (repeatable)' -r -F
complete -c stockade -n "__fish_stockade_using_subcommand run" -l network -d 'Network: off (a loopback of its own), allowlist or full [default: off in confining modes]' -r -f -a "off\t''
allowlist\t''
full\t''"
complete -c stockade -n "__fish_stockade_using_subcommand run" -l allow-host -d 'Let one host through (repeatable; implies --network allowlist)' -r
complete -c stockade -n "__fish_stockade_using_subcommand run" -l env -d 'Set an environment variable (repeatable)' -r
complete -c stockade -n "__fish_stockade_using_subcommand run" -l pass-env -d 'Let an inherited environment variable through the scrub (repeatable)' -r
complete -c stockade -n "__fish_stockade_using_subcommand run" -l timeout-ms -d 'Time limit in milliseconds, 0 for none' -r
complete -c stockade -n "__fish_stockade_using_subcommand run" -l require -d 'Refuse to run below this enforcement' -r -f -a "full\t''
partial\t''"
complete -c stockade -n "__fish_stockade_using_subcommand run" -l trace -d 'Record denials as the kernel sees them' -r -f -a "auto\t''
on\t''
off\t''"
complete -c stockade -n "__fish_stockade_using_subcommand run" -l audit -d 'Read the kernel\'s audit records too: auto where auditing is on and they may be read; on turns auditing on for the whole host and off again at the end' -r -f -a "auto\t''
on\t''
off\t''"
complete -c stockade -n "__fish_stockade_using_subcommand run" -l journal -d 'Append execution records to this file' -r -F
complete -c stockade -n "__fish_stockade_using_subcommand run" -l backend -d 'Which backend confines; `landlock` does without namespaces, with the gaps it reports' -r -f -a "auto\t''
namespaces\t''
landlock\t''"
complete -c stockade -n "__fish_stockade_using_subcommand run" -s c -d 'Run this through `bash -c` instead of a program' -r
complete -c stockade -n "__fish_stockade_using_subcommand run" -l json -d 'Capture output and print one JSON result line instead'
complete -c stockade -n "__fish_stockade_using_subcommand run" -s h -l help -d 'Print help'
complete -c stockade -n "__fish_stockade_using_subcommand run" -s V -l version -d 'Print version'
complete -c stockade -n "__fish_stockade_using_subcommand shell" -l mode -d 'What the command may do: read-only, workspace-write or danger-full-access [default: read-only]' -r
complete -c stockade -n "__fish_stockade_using_subcommand shell" -l workspace -d 'Root that workspace-write may write under [default: the current directory]' -r -F
complete -c stockade -n "__fish_stockade_using_subcommand shell" -l workdir -d 'Where the command starts [default: the workspace]' -r -F
complete -c stockade -n "__fish_stockade_using_subcommand shell" -l policy -d 'Policy file, or the name of a shipped one [default: the shipped policy of the mode]' -r
complete -c stockade -n "__fish_stockade_using_subcommand shell" -l write -d 'Make a path writable (repeatable; the most specific path wins, whatever the order)' -r -F
complete -c stockade -n "__fish_stockade_using_subcommand shell" -l deny-write -d 'Make a path read-only within a writable one (repeatable)' -r -F
complete -c stockade -n "__fish_stockade_using_subcommand shell" -l deny-read -d 'Mask a path from reading and writing (repeatable)' -r -F
complete -c stockade -n "__fish_stockade_using_subcommand shell" -l network -d 'Network: off (a loopback of its own), allowlist or full [default: off in confining modes]' -r -f -a "off\t''
allowlist\t''
full\t''"
complete -c stockade -n "__fish_stockade_using_subcommand shell" -l allow-host -d 'Let one host through (repeatable; implies --network allowlist)' -r
complete -c stockade -n "__fish_stockade_using_subcommand shell" -l env -d 'Set an environment variable (repeatable)' -r
complete -c stockade -n "__fish_stockade_using_subcommand shell" -l pass-env -d 'Let an inherited environment variable through the scrub (repeatable)' -r
complete -c stockade -n "__fish_stockade_using_subcommand shell" -l timeout-ms -d 'Time limit in milliseconds, 0 for none' -r
complete -c stockade -n "__fish_stockade_using_subcommand shell" -l require -d 'Refuse to run below this enforcement' -r -f -a "full\t''
partial\t''"
complete -c stockade -n "__fish_stockade_using_subcommand shell" -l trace -d 'Record denials as the kernel sees them' -r -f -a "auto\t''
on\t''
off\t''"
complete -c stockade -n "__fish_stockade_using_subcommand shell" -l audit -d 'Read the kernel\'s audit records too: auto where auditing is on and they may be read; on turns auditing on for the whole host and off again at the end' -r -f -a "auto\t''
on\t''
off\t''"
complete -c stockade -n "__fish_stockade_using_subcommand shell" -l journal -d 'Append execution records to this file' -r -F
complete -c stockade -n "__fish_stockade_using_subcommand shell" -l backend -d 'Which backend confines; `landlock` does without namespaces, with the gaps it reports' -r -f -a "auto\t''
namespaces\t''
landlock\t''"
complete -c stockade -n "__fish_stockade_using_subcommand shell" -s h -l help -d 'Print help'
complete -c stockade -n "__fish_stockade_using_subcommand shell" -s V -l version -d 'Print version'
complete -c stockade -n "__fish_stockade_using_subcommand doctor" -l json -d 'Print the report as JSON'
complete -c stockade -n "__fish_stockade_using_subcommand doctor" -s h -l help -d 'Print help'
complete -c stockade -n "__fish_stockade_using_subcommand doctor" -s V -l version -d 'Print version'
complete -c stockade -n "__fish_stockade_using_subcommand explain" -l mode -d 'What the command may do: read-only, workspace-write or danger-full-access [default: read-only]' -r
complete -c stockade -n "__fish_stockade_using_subcommand explain" -l workspace -d 'Root that workspace-write may write under [default: the current directory]' -r -F
complete -c stockade -n "__fish_stockade_using_subcommand explain" -l workdir -d 'Where the command starts [default: the workspace]' -r -F
complete -c stockade -n "__fish_stockade_using_subcommand explain" -l policy -d 'Policy file, or the name of a shipped one [default: the shipped policy of the mode]' -r
complete -c stockade -n "__fish_stockade_using_subcommand explain" -l write -d 'Make a path writable (repeatable; the most specific path wins, whatever the order)' -r -F
complete -c stockade -n "__fish_stockade_using_subcommand explain" -l deny-write -d 'Make a path read-only within a writable one (repeatable)' -r -F
complete -c stockade -n "__fish_stockade_using_subcommand explain" -l deny-read -d 'Mask a path from reading and writing (repeatable)' -r -F
complete -c stockade -n "__fish_stockade_using_subcommand explain" -l network -d 'Network: off (a loopback of its own), allowlist or full [default: off in confining modes]' -r -f -a "off\t''
allowlist\t''
full\t''"
complete -c stockade -n "__fish_stockade_using_subcommand explain" -l allow-host -d 'Let one host through (repeatable; implies --network allowlist)' -r
complete -c stockade -n "__fish_stockade_using_subcommand explain" -l env -d 'Set an environment variable (repeatable)' -r
complete -c stockade -n "__fish_stockade_using_subcommand explain" -l pass-env -d 'Let an inherited environment variable through the scrub (repeatable)' -r
complete -c stockade -n "__fish_stockade_using_subcommand explain" -l timeout-ms -d 'Time limit in milliseconds, 0 for none' -r
complete -c stockade -n "__fish_stockade_using_subcommand explain" -l require -d 'Refuse to run below this enforcement' -r -f -a "full\t''
partial\t''"
complete -c stockade -n "__fish_stockade_using_subcommand explain" -l trace -d 'Record denials as the kernel sees them' -r -f -a "auto\t''
on\t''
off\t''"
complete -c stockade -n "__fish_stockade_using_subcommand explain" -l audit -d 'Read the kernel\'s audit records too: auto where auditing is on and they may be read; on turns auditing on for the whole host and off again at the end' -r -f -a "auto\t''
on\t''
off\t''"
complete -c stockade -n "__fish_stockade_using_subcommand explain" -l journal -d 'Append execution records to this file' -r -F
complete -c stockade -n "__fish_stockade_using_subcommand explain" -l backend -d 'Which backend confines; `landlock` does without namespaces, with the gaps it reports' -r -f -a "auto\t''
namespaces\t''
landlock\t''"
complete -c stockade -n "__fish_stockade_using_subcommand explain" -l json -d 'Print JSON: one object for the policy, or one line for each question'
complete -c stockade -n "__fish_stockade_using_subcommand explain" -l all -d 'List rules about paths that do not exist, too'
complete -c stockade -n "__fish_stockade_using_subcommand explain" -s h -l help -d 'Print help'
complete -c stockade -n "__fish_stockade_using_subcommand explain" -s V -l version -d 'Print version'
complete -c stockade -n "__fish_stockade_using_subcommand verify" -l mode -d 'What the command may do: read-only, workspace-write or danger-full-access [default: read-only]' -r
complete -c stockade -n "__fish_stockade_using_subcommand verify" -l workspace -d 'Root that workspace-write may write under [default: the current directory]' -r -F
complete -c stockade -n "__fish_stockade_using_subcommand verify" -l workdir -d 'Where the command starts [default: the workspace]' -r -F
complete -c stockade -n "__fish_stockade_using_subcommand verify" -l policy -d 'Policy file, or the name of a shipped one [default: the shipped policy of the mode]' -r
complete -c stockade -n "__fish_stockade_using_subcommand verify" -l write -d 'Make a path writable (repeatable; the most specific path wins, whatever the order)' -r -F
complete -c stockade -n "__fish_stockade_using_subcommand verify" -l deny-write -d 'Make a path read-only within a writable one (repeatable)' -r -F
complete -c stockade -n "__fish_stockade_using_subcommand verify" -l deny-read -d 'Mask a path from reading and writing (repeatable)' -r -F
complete -c stockade -n "__fish_stockade_using_subcommand verify" -l network -d 'Network: off (a loopback of its own), allowlist or full [default: off in confining modes]' -r -f -a "off\t''
allowlist\t''
full\t''"
complete -c stockade -n "__fish_stockade_using_subcommand verify" -l allow-host -d 'Let one host through (repeatable; implies --network allowlist)' -r
complete -c stockade -n "__fish_stockade_using_subcommand verify" -l env -d 'Set an environment variable (repeatable)' -r
complete -c stockade -n "__fish_stockade_using_subcommand verify" -l pass-env -d 'Let an inherited environment variable through the scrub (repeatable)' -r
complete -c stockade -n "__fish_stockade_using_subcommand verify" -l timeout-ms -d 'Time limit in milliseconds, 0 for none' -r
complete -c stockade -n "__fish_stockade_using_subcommand verify" -l require -d 'Refuse to run below this enforcement' -r -f -a "full\t''
partial\t''"
complete -c stockade -n "__fish_stockade_using_subcommand verify" -l trace -d 'Record denials as the kernel sees them' -r -f -a "auto\t''
on\t''
off\t''"
complete -c stockade -n "__fish_stockade_using_subcommand verify" -l audit -d 'Read the kernel\'s audit records too: auto where auditing is on and they may be read; on turns auditing on for the whole host and off again at the end' -r -f -a "auto\t''
on\t''
off\t''"
complete -c stockade -n "__fish_stockade_using_subcommand verify" -l journal -d 'Append execution records to this file' -r -F
complete -c stockade -n "__fish_stockade_using_subcommand verify" -l backend -d 'Which backend confines; `landlock` does without namespaces, with the gaps it reports' -r -f -a "auto\t''
namespaces\t''
landlock\t''"
complete -c stockade -n "__fish_stockade_using_subcommand verify" -l html -d 'Write the report to a file as one HTML page' -r -F
complete -c stockade -n "__fish_stockade_using_subcommand verify" -l json -d 'Print the report as JSON'
complete -c stockade -n "__fish_stockade_using_subcommand verify" -s h -l help -d 'Print help'
complete -c stockade -n "__fish_stockade_using_subcommand verify" -s V -l version -d 'Print version'
complete -c stockade -n "__fish_stockade_using_subcommand journal; and not __fish_seen_subcommand_from show verify help" -s h -l help -d 'Print help'
complete -c stockade -n "__fish_stockade_using_subcommand journal; and not __fish_seen_subcommand_from show verify help" -s V -l version -d 'Print version'
complete -c stockade -n "__fish_stockade_using_subcommand journal; and not __fish_seen_subcommand_from show verify help" -f -a "show" -d 'Show records, oldest first'
complete -c stockade -n "__fish_stockade_using_subcommand journal; and not __fish_seen_subcommand_from show verify help" -f -a "verify" -d 'Find any edit, loss or reordering and say where; exit status 1 when there is one'
complete -c stockade -n "__fish_stockade_using_subcommand journal; and not __fish_seen_subcommand_from show verify help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c stockade -n "__fish_stockade_using_subcommand journal; and __fish_seen_subcommand_from show" -l session -d 'Only records of this session' -r
complete -c stockade -n "__fish_stockade_using_subcommand journal; and __fish_seen_subcommand_from show" -l mode -d 'Only commands under this mode' -r
complete -c stockade -n "__fish_stockade_using_subcommand journal; and __fish_seen_subcommand_from show" -l since -d 'Only records since a moment (2026-03-01T10:00:00Z) or a while ago (2h, 30m)' -r
complete -c stockade -n "__fish_stockade_using_subcommand journal; and __fish_seen_subcommand_from show" -l denied -d 'Only commands that something was denied to'
complete -c stockade -n "__fish_stockade_using_subcommand journal; and __fish_seen_subcommand_from show" -l follow -d 'Go on with what is appended'
complete -c stockade -n "__fish_stockade_using_subcommand journal; and __fish_seen_subcommand_from show" -l json -d 'Print the records as they are stored'
complete -c stockade -n "__fish_stockade_using_subcommand journal; and __fish_seen_subcommand_from show" -s h -l help -d 'Print help'
complete -c stockade -n "__fish_stockade_using_subcommand journal; and __fish_seen_subcommand_from show" -s V -l version -d 'Print version'
complete -c stockade -n "__fish_stockade_using_subcommand journal; and __fish_seen_subcommand_from verify" -l known -d 'A hash that an earlier check ended with, which must still be in the chain' -r
complete -c stockade -n "__fish_stockade_using_subcommand journal; and __fish_seen_subcommand_from verify" -l json -d 'Print the report as JSON'
complete -c stockade -n "__fish_stockade_using_subcommand journal; and __fish_seen_subcommand_from verify" -s h -l help -d 'Print help'
complete -c stockade -n "__fish_stockade_using_subcommand journal; and __fish_seen_subcommand_from verify" -s V -l version -d 'Print version'
complete -c stockade -n "__fish_stockade_using_subcommand journal; and __fish_seen_subcommand_from help" -f -a "show" -d 'Show records, oldest first'
complete -c stockade -n "__fish_stockade_using_subcommand journal; and __fish_seen_subcommand_from help" -f -a "verify" -d 'Find any edit, loss or reordering and say where; exit status 1 when there is one'
complete -c stockade -n "__fish_stockade_using_subcommand journal; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c stockade -n "__fish_stockade_using_subcommand mcp" -l mode -d 'What the command may do: read-only, workspace-write or danger-full-access [default: read-only]' -r
complete -c stockade -n "__fish_stockade_using_subcommand mcp" -l workspace -d 'Root that workspace-write may write under [default: the current directory]' -r -F
complete -c stockade -n "__fish_stockade_using_subcommand mcp" -l workdir -d 'Where the command starts [default: the workspace]' -r -F
complete -c stockade -n "__fish_stockade_using_subcommand mcp" -l policy -d 'Policy file, or the name of a shipped one [default: the shipped policy of the mode]' -r
complete -c stockade -n "__fish_stockade_using_subcommand mcp" -l write -d 'Make a path writable (repeatable; the most specific path wins, whatever the order)' -r -F
complete -c stockade -n "__fish_stockade_using_subcommand mcp" -l deny-write -d 'Make a path read-only within a writable one (repeatable)' -r -F
complete -c stockade -n "__fish_stockade_using_subcommand mcp" -l deny-read -d 'Mask a path from reading and writing (repeatable)' -r -F
complete -c stockade -n "__fish_stockade_using_subcommand mcp" -l network -d 'Network: off (a loopback of its own), allowlist or full [default: off in confining modes]' -r -f -a "off\t''
allowlist\t''
full\t''"
complete -c stockade -n "__fish_stockade_using_subcommand mcp" -l allow-host -d 'Let one host through (repeatable; implies --network allowlist)' -r
complete -c stockade -n "__fish_stockade_using_subcommand mcp" -l env -d 'Set an environment variable (repeatable)' -r
complete -c stockade -n "__fish_stockade_using_subcommand mcp" -l pass-env -d 'Let an inherited environment variable through the scrub (repeatable)' -r
complete -c stockade -n "__fish_stockade_using_subcommand mcp" -l timeout-ms -d 'Time limit in milliseconds, 0 for none' -r
complete -c stockade -n "__fish_stockade_using_subcommand mcp" -l require -d 'Refuse to run below this enforcement' -r -f -a "full\t''
partial\t''"
complete -c stockade -n "__fish_stockade_using_subcommand mcp" -l trace -d 'Record denials as the kernel sees them' -r -f -a "auto\t''
on\t''
off\t''"
complete -c stockade -n "__fish_stockade_using_subcommand mcp" -l audit -d 'Read the kernel\'s audit records too: auto where auditing is on and they may be read; on turns auditing on for the whole host and off again at the end' -r -f -a "auto\t''
on\t''
off\t''"
complete -c stockade -n "__fish_stockade_using_subcommand mcp" -l journal -d 'Append execution records to this file' -r -F
complete -c stockade -n "__fish_stockade_using_subcommand mcp" -l backend -d 'Which backend confines; `landlock` does without namespaces, with the gaps it reports' -r -f -a "auto\t''
namespaces\t''
landlock\t''"
complete -c stockade -n "__fish_stockade_using_subcommand mcp" -s h -l help -d 'Print help'
complete -c stockade -n "__fish_stockade_using_subcommand mcp" -s V -l version -d 'Print version'
complete -c stockade -n "__fish_stockade_using_subcommand completions" -s h -l help -d 'Print help'
complete -c stockade -n "__fish_stockade_using_subcommand completions" -s V -l version -d 'Print version'
complete -c stockade -n "__fish_stockade_using_subcommand help; and not __fish_seen_subcommand_from run shell doctor explain verify journal mcp completions help" -f -a "run" -d 'Run one program confined, standard input and output passed through'
complete -c stockade -n "__fish_stockade_using_subcommand help; and not __fish_seen_subcommand_from run shell doctor explain verify journal mcp completions help" -f -a "shell" -d 'An interactive confined bash on a pseudo-terminal of its own'
complete -c stockade -n "__fish_stockade_using_subcommand help; and not __fish_seen_subcommand_from run shell doctor explain verify journal mcp completions help" -f -a "doctor" -d 'What this host can enforce, what is missing and how to get it'
complete -c stockade -n "__fish_stockade_using_subcommand help; and not __fish_seen_subcommand_from run shell doctor explain verify journal mcp completions help" -f -a "explain" -d 'Show the effective policy as rules; for a path or a host, whether it is allowed and by which rule'
complete -c stockade -n "__fish_stockade_using_subcommand help; and not __fish_seen_subcommand_from run shell doctor explain verify journal mcp completions help" -f -a "verify" -d 'Try every promise on this host, in sandboxes and without, on throw-away targets; exit status 1 when one is not kept'
complete -c stockade -n "__fish_stockade_using_subcommand help; and not __fish_seen_subcommand_from run shell doctor explain verify journal mcp completions help" -f -a "journal" -d 'Read the execution journal'
complete -c stockade -n "__fish_stockade_using_subcommand help; and not __fish_seen_subcommand_from run shell doctor explain verify journal mcp completions help" -f -a "mcp" -d 'Serve the tools over the Model Context Protocol on standard input and output'
complete -c stockade -n "__fish_stockade_using_subcommand help; and not __fish_seen_subcommand_from run shell doctor explain verify journal mcp completions help" -f -a "completions" -d 'Print a completion script for a shell'
complete -c stockade -n "__fish_stockade_using_subcommand help; and not __fish_seen_subcommand_from run shell doctor explain verify journal mcp completions help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c stockade -n "__fish_stockade_using_subcommand help; and __fish_seen_subcommand_from journal" -f -a "show" -d 'Show records, oldest first'
complete -c stockade -n "__fish_stockade_using_subcommand help; and __fish_seen_subcommand_from journal" -f -a "verify" -d 'Find any edit, loss or reordering and say where; exit status 1 when there is one'
