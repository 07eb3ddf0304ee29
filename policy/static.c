/* Policy static: the user writes rules, and the first rule that matches decides. This is the static choice of
 * hybrid-allocation-he, III.A, with its advice about managed memory, without a change to the program's source. */
#include "policy/rules.h"
#include "policy/setup.h"

static struct {
    struct gm_rule *rules;
    unsigned count;
} state;

struct text {
    const char *file; /* NULL: the rules are the argument itself */
    const char *bytes;
    size_t length;
};

static gm_status refuse_rule(struct gm_policy_setup *setup, const struct text *text,
                             const struct gm_rules_error *error) {
    char room[GM_DIGITS];
    return gm_setup_error(setup, text->file ? text->file : "", text->file ? " line " : "rule ",
                          gm_setup_digits(room, text->file ? error->line : error->rule), ": ", error->text);
}

static gm_status read_rules(struct gm_policy_setup *setup, const struct text *text) {
    struct gm_rules_error error;
    int count = gm_rules_read(text->bytes, text->length, setup->managed, NULL, 0, &error);
    if (count < 0)
        return refuse_rule(setup, text, &error);
    if (!count)
        return gm_setup_error(setup, "policy static needs rules: static:RULES or static:@FILE");
    struct gm_rule *rules = setup->reserve((size_t)count * sizeof *rules);
    if (!rules) {
        gm_setup_error(setup, "no memory for the rules");
        return GM_OUT_OF_MEMORY;
    }
    gm_rules_read(text->bytes, text->length, setup->managed, rules, (unsigned)count, &error);
    state.rules = rules;
    state.count = (unsigned)count;
    setup->wants |= gm_rules_wants(rules, state.count);
    return GM_OK;
}

static gm_status setup_static(struct gm_policy_setup *setup) {
    const char *argument = setup->argument ? setup->argument : "", *why = "files cannot be read here";
    struct text text = {.bytes = argument};
    if (argument[0] != '@') {
        while (argument[text.length])
            text.length++;
        return read_rules(setup, &text);
    }
    text.file = argument + 1;
    text.bytes = setup->load ? setup->load(text.file, &text.length, &why) : NULL;
    if (!text.bytes)
        return gm_setup_error(setup, text.file, ": ", why);
    gm_status status = read_rules(setup, &text);
    setup->unload(text.bytes, text.length);
    return status;
}

static void static_decide(const struct gm_request *request, struct gm_decision *decision) {
    const struct gm_rule *rule = gm_rules_match(state.rules, state.count, request);
    gm_decide_kind(request, rule ? rule->kind : GM_KIND_NATIVE, rule ? GM_REASON_RULE : GM_REASON_POLICY, decision);
    decision->advice = rule && !request->capturing ? rule->advice : 0;
}

const struct gm_policy gm_policy_static = {
    .name = "static",
    .summary = "Memory by rules on size, call, device, stream, thread, call site and order, in the argument or (@FILE) "
               "in a file. Memory is native "
               "where no rule matches.",
    .takes_argument = true,
    .setup = setup_static,
    .decide = static_decide,
};
