/* The random decisions of a plan, by what they are about. */
#ifndef FUZZ_STEPS_H
#define FUZZ_STEPS_H

#include "model.h"

/* Some living memory of a context (NOBODY: any) that suits. NOBODY: none. */
int pick(bool (*suits)(const struct object *), int context);
/* Some usable lane of a context (NOBODY: any). */
int pick_lane(int context);
/* Mostly the first one. */
int pick_context(void);
bool of_plain_device_memory(const struct object *object);
bool is_for_host(const struct object *object);
bool is_hidden(const struct object *object);
/* Work and the order that it needs. */
void work(enum call_kind kind, int lane, int to, int from);
/* New memory with contents; NOBODY: not now. */
int allocate(enum kind kind, int context);
void destroy_graph(int number);
/* What the work leaves behind when all work is done. */
void apply(const struct node *node);
void work_any(void);
void query(void);
void host_write(int number);
void host_read(int number);
/* By a copy that returns when it is done. */
void copy_down(int from);
void allocate_any(void);
void free_any(void);
void close_or_open(void);
/* The program learns where the variable is, and reads it. */
void look_up(int number);
void look(void);
int new_stream(int context, bool blocking);
void destroy_stream(void);
void change_threads(void);
void change_mode(void);
void change_contexts(void);
void graphs_any(void);

#endif
