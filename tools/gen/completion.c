#include "tools/gen/gen.h"

#include <string.h>

static void command_names(FILE *out) {
    for (int i = 0; gm_gen_commands[i].name; i++)
        fprintf(out, "%s%s", i ? " " : "", gm_gen_commands[i].name);
}

static void policy_names(FILE *out) {
    for (int i = 0; gm_policies[i]; i++)
        fprintf(out, "%s%s", i ? " " : "", gm_policies[i]->name);
}

static void flags_of(FILE *out, const char *command) {
    for (int i = 0; gm_flags[i].name; i++) {
        if (gm_flag_is_of(&gm_flags[i], command))
            fprintf(out, " --%s", gm_flags[i].name);
    }
}

/* Choices for a flag's value; NULL = none. */
static const char *choices_of(const struct gm_flag *flag) {
    return strchr(flag->argument, '|') ? flag->argument : NULL;
}

static void choices(FILE *out, const char *words) {
    for (; *words; words++)
        fputc(*words == '|' ? ' ' : *words, out);
}

static void launch_flags(FILE *out) {
    for (int i = 0; i < GM_OPTION_COUNT_; i++) {
        if (gm_option_rows[i].flag)
            fprintf(out, " --%s", gm_option_rows[i].flag);
    }
    flags_of(out, "run");
}

static bool is_file(const struct gm_option *row) { return !strcmp(row->unit, "FILE"); }
static bool is_policy(const struct gm_option *row) { return row->id == GM_OPT_POLICY; }

/* Writes the choices for an option's value, separated by spaces; nothing for numbers. */
static void offered_values(FILE *out, const struct gm_option *row) {
    if (is_policy(row))
        policy_names(out);
    else if (row->choices)
        fputs(row->choices, out);
}

static const char complete_file[] =
    "compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -f -- \"$cur\")); return ;;";

/* Writes the case of a command whose arguments are files or process ids. */
static void bash_of_reader(FILE *out, const struct gm_gen_command *row) {
    const char *command = row->name;
    fprintf(out, "        %s)\n            case $prev in\n", command);
    for (int i = 0; gm_flags[i].name; i++) {
        const struct gm_flag *flag = &gm_flags[i];
        if (!gm_flag_is_of(flag, command) || !*flag->argument || *flag->argument == '[')
            continue;
        fprintf(out, "                --%s) ", flag->name);
        if (choices_of(flag)) {
            fputs("COMPREPLY=($(compgen -W \"", out);
            choices(out, choices_of(flag));
            fputs("\" -- \"$cur\")); return ;;\n", out);
        } else {
            fprintf(out, "%s\n", !strcmp(flag->argument, "FILE") ? complete_file : "return ;;");
        }
    }
    fputs("            esac\n"
          "            if [[ $cur == -* ]]; then\n"
          "                COMPREPLY=($(compgen -W \"",
          out);
    flags_of(out, command);
    fputs("\" -- \"$cur\"))\n"
          "            else\n",
          out);
    if (row->words)
        fprintf(out, "                COMPREPLY=($(compgen -W \"%s\" -- \"$cur\")\n                    ", row->words);
    else if (row->looks_at_processes)
        fputs("                COMPREPLY=(", out);
    fputs(row->looks_at_processes ? "$(cd /proc && compgen -G \"${cur:-[1-9]}*\" | grep -x '[0-9]*'))\n"
                                  : "                compopt -o filenames 2>/dev/null\n"
                                    "                COMPREPLY=($(compgen -f -- \"$cur\"))\n",
          out);
    fputs("            fi ;;\n", out);
}

void gm_gen_bash(FILE *out) {
    fputs("# bash completion for gpumem\n"
          "_gpumem() {\n"
          "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} command= skip= i word\n"
          "    COMPREPLY=()\n"
          "    # --flag=value arrives as three words\n"
          "    if [[ $cur == = ]]; then\n"
          "        cur=\n"
          "    elif [[ $prev == = ]]; then\n"
          "        prev=${COMP_WORDS[COMP_CWORD-2]}\n"
          "    fi\n"
          "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
          "        word=${COMP_WORDS[i]}\n"
          "        if [[ -z $command ]]; then\n"
          "            [[ $word == -* ]] || command=$word\n"
          "            continue\n"
          "        fi\n"
          "        [[ $command == run ]] || continue\n"
          "        if [[ -n $skip ]]; then\n"
          "            [[ $word == = ]] || skip=\n"
          "            continue\n"
          "        fi\n"
          "        case $word in\n"
          "            --)\n"
          "                ((i + 1 <= COMP_CWORD)) && _gpumem_program $((i + 1))\n"
          "                return ;;\n",
          out);
    fputs("            ", out);
    bool first = true;
    for (int i = 0; i < GM_OPTION_COUNT_; i++) {
        if (gm_option_rows[i].flag && gm_option_rows[i].type != GM_OPTION_BOOL) {
            fprintf(out, "%s--%s", first ? "" : "|", gm_option_rows[i].flag);
            first = false;
        }
    }
    for (int i = 0; gm_flags[i].name; i++) {
        if (gm_flag_is_of(&gm_flags[i], "run") && *gm_flags[i].argument)
            fprintf(out, "|--%s", gm_flags[i].name);
    }
    fputs(") skip=1 ;;\n"
          "            -*|=) ;;\n"
          "            *)\n"
          "                _gpumem_program \"$i\"\n"
          "                return ;;\n"
          "        esac\n"
          "    done\n"
          "    case $command in\n"
          "        '') COMPREPLY=($(compgen -W \"",
          out);
    command_names(out);
    fputs(" --help --version\" -- \"$cur\")) ;;\n"
          "        help) COMPREPLY=($(compgen -W \"",
          out);
    command_names(out);
    fputs("\" -- \"$cur\")) ;;\n"
          "        run)\n"
          "            case $prev in\n",
          out);
    for (int i = 0; i < GM_OPTION_COUNT_; i++) {
        const struct gm_option *row = &gm_option_rows[i];
        if (!row->flag || row->type == GM_OPTION_BOOL)
            continue;
        fprintf(out, "                --%s) ", row->flag);
        if (is_file(row)) {
            fprintf(out, "%s\n", complete_file);
        } else if (is_policy(row) || row->choices) {
            fputs("COMPREPLY=($(compgen -W \"", out);
            offered_values(out, row);
            fputs("\" -- \"$cur\")); return ;;\n", out);
        } else {
            fputs("return ;;\n", out);
        }
    }
    for (int i = 0; gm_flags[i].name; i++) {
        if (gm_flag_is_of(&gm_flags[i], "run") && !strcmp(gm_flags[i].argument, "FILE"))
            fprintf(out, "                --%s) %s\n", gm_flags[i].name, complete_file);
    }
    fputs("            esac\n"
          "            if [[ $cur == -* ]]; then\n"
          "                COMPREPLY=($(compgen -W \"",
          out);
    launch_flags(out);
    fputs("\" -- \"$cur\"))\n"
          "            else\n"
          "                _gpumem_program \"$COMP_CWORD\"\n"
          "            fi ;;\n",
          out);
    for (int c = 0; gm_gen_commands[c].name; c++) {
        if (!gm_gen_commands[c].launches && strcmp(gm_gen_commands[c].name, "help"))
            bash_of_reader(out, &gm_gen_commands[c]);
    }
    fputs("    esac\n"
          "}\n"
          "# The words from $1 on are a command line of their own.\n"
          "_gpumem_program() {\n"
          "    if declare -F _command_offset >/dev/null; then\n"
          "        _command_offset \"$1\"\n"
          "    elif (($1 == COMP_CWORD)); then\n"
          "        COMPREPLY=($(compgen -c -- \"${COMP_WORDS[COMP_CWORD]}\") $(compgen -f -- "
          "\"${COMP_WORDS[COMP_CWORD]}\"))\n"
          "    else\n"
          "        COMPREPLY=($(compgen -f -- \"${COMP_WORDS[COMP_CWORD]}\"))\n"
          "    fi\n"
          "}\n"
          "complete -F _gpumem gpumem\n",
          out);
}

/* Writes the help text up to its first semicolon or full stop, escaped for single quotes and, in zsh, for brackets. */
static void short_help(FILE *out, const char *help, const char *escape) {
    for (; *help && *help != ';' && !(*help == '.' && (help[1] == ' ' || !help[1])); help++) {
        if (*help == '\'') {
            fputs("'\\''", out);
            continue;
        }
        if (strchr(escape, *help))
            fputc('\\', out);
        fputc(*help, out);
    }
}

static void zsh_flag(FILE *out, const struct gm_flag *flag) {
    fprintf(out, " '--%s%s[", flag->name, !*flag->argument ? "" : *flag->argument == '[' ? "=-" : "=");
    short_help(out, flag->help, "[]:");
    fputc(']', out);
    if (choices_of(flag)) {
        fputs(":value:(", out);
        choices(out, choices_of(flag));
        fputc(')', out);
    } else if (*flag->argument) {
        fprintf(out, "%s",
                *flag->argument == '['            ? "::value:"
                : !strcmp(flag->argument, "FILE") ? ":file:_files"
                                                  : ":value:");
    }
    fputc('\'', out);
}

void gm_gen_zsh(FILE *out) {
    fputs("#compdef gpumem\n"
          "_gpumem() {\n"
          "    local curcontext=$curcontext state line\n"
          "    typeset -A opt_args\n"
          "    _arguments -C '--help[print a summary]' '--version[print the version]' '1:command:->command' "
          "'*::argument:->argument'\n"
          "    case $state in\n"
          "        command)\n"
          "            local -a commands=(\n",
          out);
    for (int i = 0; gm_gen_commands[i].name; i++) {
        fprintf(out, "                '%s:", gm_gen_commands[i].name);
        short_help(out, gm_gen_commands[i].help, ":");
        fputs("'\n", out);
    }
    fputs("            )\n"
          "            _describe command commands ;;\n"
          "        argument)\n"
          "            case $line[1] in\n"
          "                run) _arguments \\\n",
          out);
    for (int i = 0; i < GM_OPTION_COUNT_; i++) {
        const struct gm_option *row = &gm_option_rows[i];
        if (!row->flag)
            continue;
        fprintf(out, "                    '--%s%s[", row->flag, row->type == GM_OPTION_BOOL ? "" : "=");
        short_help(out, row->help, "[]:");
        fputc(']', out);
        if (is_file(row)) {
            fputs(":file:_files", out);
        } else if (is_policy(row) || row->choices) {
            fputs(":value:(", out);
            offered_values(out, row);
            fputc(')', out);
        } else if (row->type != GM_OPTION_BOOL) {
            fputs(":value:", out);
        }
        fputs("' \\\n", out);
    }
    for (int i = 0; gm_flags[i].name; i++) {
        const struct gm_flag *flag = &gm_flags[i];
        if (!gm_flag_is_of(flag, "run"))
            continue;
        fprintf(out, "                    '--%s%s[", flag->name, *flag->argument ? "=" : "");
        short_help(out, flag->help, "[]:");
        fprintf(out, "]%s' \\\n", *flag->argument ? ":file:_files" : "");
    }
    fputs("                    '(-):program:_command_names -e' '*::argument:_normal' ;;\n"
          "                help) _values command",
          out);
    for (int i = 0; gm_gen_commands[i].name; i++)
        fprintf(out, " %s", gm_gen_commands[i].name);
    fputs(" ;;\n", out);
    for (int c = 0; gm_gen_commands[c].name; c++) {
        const char *command = gm_gen_commands[c].name;
        if (gm_gen_commands[c].launches || !strcmp(command, "help"))
            continue;
        fprintf(out, "                %s) _arguments", command);
        for (int i = 0; gm_flags[i].name; i++) {
            if (gm_flag_is_of(&gm_flags[i], command))
                zsh_flag(out, &gm_flags[i]);
        }
        if (gm_gen_commands[c].words)
            fprintf(out, " \"1:word or process:{ compadd -- %s; _pids }\"", gm_gen_commands[c].words);
        fputs(gm_gen_commands[c].looks_at_processes ? " '*:process:_pids' ;;\n" : " '*:file:_files' ;;\n", out);
    }
    fputs("            esac ;;\n"
          "    esac\n"
          "}\n"
          "_gpumem \"$@\"\n",
          out);
}

void gm_gen_fish(FILE *out) {
    fputs("# fish completion for gpumem\n"
          "complete -c gpumem -n __fish_use_subcommand -l help -d 'Print a summary'\n"
          "complete -c gpumem -n __fish_use_subcommand -l version -d 'Print the version'\n",
          out);
    for (int i = 0; gm_gen_commands[i].name; i++) {
        fprintf(out, "complete -c gpumem -f -n __fish_use_subcommand -a %s -d '", gm_gen_commands[i].name);
        short_help(out, gm_gen_commands[i].help, "\\");
        fputs("'\n", out);
    }
    for (int i = 0; i < GM_OPTION_COUNT_; i++) {
        const struct gm_option *row = &gm_option_rows[i];
        if (!row->flag)
            continue;
        fprintf(out, "complete -c gpumem -n '__fish_seen_subcommand_from run' -l %s", row->flag);
        if (is_file(row)) {
            fputs(" -r -F", out);
        } else if (is_policy(row) || row->choices) {
            fputs(" -x -a '", out);
            offered_values(out, row);
            fputc('\'', out);
        } else if (row->type != GM_OPTION_BOOL) {
            fputs(" -x", out);
        }
        fputs(" -d '", out);
        short_help(out, row->help, "\\");
        fputs("'\n", out);
    }
    for (int i = 0; gm_flags[i].name; i++) {
        const struct gm_flag *flag = &gm_flags[i];
        fprintf(out, "complete -c gpumem -n '__fish_seen_subcommand_from %s' -l %s", flag->commands, flag->name);
        if (choices_of(flag)) {
            fputs(" -x -a '", out);
            choices(out, choices_of(flag));
            fputc('\'', out);
        } else if (*flag->argument && *flag->argument != '[') {
            fputs(" -r", out);
        }
        fputs(" -d '", out);
        short_help(out, flag->help, "\\");
        fputs("'\n", out);
    }
    fputs("complete -c gpumem -n '__fish_seen_subcommand_from top trace limit suspend resume' -f -a "
          "'(__fish_complete_pids)'\n"
          "complete -c gpumem -n '__fish_seen_subcommand_from trace' -f -a 'start stop dump'\n"
          "complete -c gpumem -n '__fish_seen_subcommand_from limit' -f -a '(ls /dev/shm 2>/dev/null | string replace "
          "-rf \"^gpumem-group-\"(id -u)\"-\" \"\")'\n",
          out);
}
