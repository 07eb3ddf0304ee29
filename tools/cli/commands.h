/* Subcommands of gpumem, one row each in main.c. `argv[0]` is the subcommand's name. The result is the exit status. */
#ifndef GM_COMMANDS_H
#define GM_COMMANDS_H

#define GM_EXIT_USAGE    2 /* a bad option or value; nothing was started */
#define GM_EXIT_CHECK    3 /* the command worked, and a requested check failed */
#define GM_EXIT_UNPROVEN 4 /* a requested check found nothing in a trace that lacks a part */

struct gm_command {
    const char *name;
    const char *summary; /* one line */
    int (*run)(int argc, char **argv);
    void (*help)(void); /* to stdout */
};

int gm_command_run(int argc, char **argv);
void gm_command_run_help(void);
int gm_command_top(int argc, char **argv);
void gm_command_top_help(void);
int gm_command_limit(int argc, char **argv);
void gm_command_limit_help(void);
int gm_command_suspend(int argc, char **argv);
void gm_command_suspend_help(void);
int gm_command_share(int argc, char **argv);
void gm_command_share_help(void);
int gm_command_resume(int argc, char **argv);
void gm_command_resume_help(void);
int gm_command_trace(int argc, char **argv);
void gm_command_trace_help(void);
int gm_command_report(int argc, char **argv);
void gm_command_report_help(void);
int gm_command_diff(int argc, char **argv);
void gm_command_diff_help(void);
int gm_command_export(int argc, char **argv);
void gm_command_export_help(void);
int gm_command_html(int argc, char **argv);
void gm_command_html_help(void);
int gm_command_plot(int argc, char **argv);
void gm_command_plot_help(void);

int gm_command_plan(int argc, char **argv);
void gm_command_plan_help(void);
int gm_command_replay(int argc, char **argv); /* only in builds with the CUDA headers */
void gm_command_replay_help(void);

/* Prints one line "gpumem: ..." to stderr and returns GM_EXIT_USAGE. */
int gm_usage_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
