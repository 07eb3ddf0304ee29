/* Parses stack texts and builds stacks of resources. Grammar: resource = maker | adaptor "(" [argument ","] resource
 * ")" | adaptor of two "(" resource "," resource ")" | "$" digit.
 *
 * A stack is a tree: most adaptors wrap one resource, some wrap two, a maker wraps none. */
#include "shim/resource/stack.h"
#include "shim/base/error.h"
#include "shim/base/options.h"

#include <string.h>
#include <sys/mman.h>

#include "shim/resource/rows.h"

struct word {
    const char *text;
    size_t size;
};

static bool is_space(char c) { return c == ' ' || c == '\t'; }

static const char *skip_spaces(const char *at) {
    while (is_space(*at))
        at++;
    return at;
}

/* Reads up to the next bracket, comma or end of text. The word has no spaces around it. */
static struct word read_word(const char **at) {
    const char *begin = skip_spaces(*at), *end = begin;
    while (*end && !strchr("(),", *end))
        end++;
    *at = end;
    while (end > begin && is_space(end[-1]))
        end--;
    return (struct word){begin, (size_t)(end - begin)};
}

/* Copies `word` for an error line: at most 40 bytes, with "?" for what is not printable. */
static const char *shown(struct word word, char out[48]) {
    size_t size = word.size < 40 ? word.size : 40;
    for (size_t i = 0; i < size; i++)
        out[i] = word.text[i] >= ' ' && word.text[i] < 127 ? word.text[i] : '?';
    memcpy(out + size, word.size > size ? "..." : "", word.size > size ? 4 : 1);
    return out;
}

static const struct gm_resource_ops *find_resource_row(struct word word) {
    for (const struct gm_resource_ops *const *row = gm_resource_rows; *row; row++)
        if (strlen((*row)->name) == word.size && !memcmp((*row)->name, word.text, word.size))
            return *row;
    return NULL;
}

/* Rows that no text of a program needs: those of unmodified programs, of tests, and of calls. */
static bool is_inner(const struct gm_resource_ops *row) {
    return row == &gm_resource_router || row == &gm_resource_sim || row == &gm_resource_retry;
}

/* Writes the accepted names, e.g. "native, async, limit(BYTES,R)". */
static void list_rows(char *out, size_t size) {
    size_t used = 0;
    out[0] = '\0';
    for (const struct gm_resource_ops *const *row = gm_resource_rows; *row && used + 1 < size; row++) {
        if (is_inner(*row))
            continue;
        const char *comma = used ? ", " : "", *arguments = (*row)->arguments;
        if ((*row)->adaptor)
            used += (size_t)gm_format(out + used, size - used, "%s%s(%s%s%sR)", comma, (*row)->name,
                                      arguments ? arguments : "", arguments ? "," : "", (*row)->two ? "R," : "");
        else
            used += (size_t)gm_format(out + used, size - used, "%s%s", comma, (*row)->name);
    }
}

static gm_status unknown_name(struct word word, char *error, size_t size) {
    char accepted[320], name[48];
    list_rows(accepted, sizeof accepted);
    if (word.size)
        return gm_refuse(error, size, "\"%s\" is not a resource; accepted: %s", shown(word, name), accepted);
    return gm_refuse(error, size, "a resource is missing at \"%s\"; accepted: %s",
                     *word.text ? shown((struct word){word.text, 1}, name) : "the end", accepted);
}

/* Reads "[argument ,]" after the opening bracket of an adaptor. A word is an argument if a comma follows it. */
static gm_status read_argument(struct gm_stack_plan *plan, const char **at, char *error, size_t size) {
    const struct gm_resource_ops *row = plan->items[plan->count].ops;
    const char *begin = *at, *end = begin;
    char text[48];
    struct word word = read_word(&end);
    if (*end != ',' || (!row->arguments && row->two)) { /* a resource; the first of two */
        *at = begin;
        return GM_OK;
    }
    if (!row->arguments)
        return gm_refuse(error, size, "\"%s\" is one argument too many: %s takes a resource only", shown(word, text),
                         row->name);
    if (!word.size || word.size >= GM_STACK_ARGUMENT)
        return gm_refuse(error, size, "\"%s\" is not an argument of %s; accepted: %s", shown(word, text), row->name,
                         row->arguments);
    memcpy(plan->items[plan->count].argument, word.text, word.size);
    plan->items[plan->count].argument[word.size] = '\0';
    plan->items[plan->count].has_argument = true;
    *at = end + 1;
    return GM_OK;
}

/* The text is read up to `at`; errors go to `error`. */
struct parser {
    const char *at;
    unsigned given, open; /* resources given; open brackets */
    struct gm_stack_plan *plan;
    char *error;
    size_t error_size;
};

static gm_status expect(struct parser *parser, char wanted) {
    char text[48];
    parser->at = skip_spaces(parser->at);
    if (*parser->at == wanted) {
        parser->at++;
        return GM_OK;
    }
    return gm_refuse(parser->error, parser->error_size, "\"%s\" where \"%c\" is expected, %u still open",
                     *parser->at ? shown((struct word){parser->at, strlen(parser->at)}, text) : "the end", wanted,
                     parser->open);
}

static gm_status too_many(struct parser *parser, struct word word) {
    char name[48];
    if (parser->open >= GM_STACK_DEPTH)
        return gm_refuse(parser->error, parser->error_size, "\"%s\" is nested too deep; at most %d resources",
                         shown(word, name), GM_STACK_DEPTH);
    return gm_refuse(parser->error, parser->error_size, "\"%s\" is one too many; at most %d resources",
                     shown(word, name), GM_STACK_ITEMS);
}

/* "$1" ...: false when `word` is something else. */
static bool is_given(const struct parser *parser, struct word word, unsigned *index) {
    *index = word.size == 2 && word.text[0] == '$' ? (unsigned)(word.text[1] - '1') : UINT32_MAX;
    return *index < parser->given;
}

static gm_status parse_resource(struct parser *parser);

static gm_status parse_wrapped(struct parser *parser, unsigned item) {
    const struct gm_resource_ops *row = parser->plan->items[item].ops;
    gm_status status = parse_resource(parser);
    if (!status && row->two) {
        status = expect(parser, ',');
        parser->plan->items[item].second = parser->plan->count;
        if (!status)
            status = parse_resource(parser);
    }
    return status ? status : expect(parser, ')');
}

static gm_status parse_resource(struct parser *parser) {
    struct gm_stack_plan *plan = parser->plan;
    struct word word = read_word(&parser->at);
    unsigned item = plan->count, given;
    const struct gm_resource_ops *row = find_resource_row(word);
    bool is_hole = !row && is_given(parser, word, &given);
    if (!row && !is_hole)
        return unknown_name(word, parser->error, parser->error_size);
    if (item == GM_STACK_ITEMS || parser->open >= GM_STACK_DEPTH)
        return too_many(parser, word);
    plan->items[item].ops = row;
    plan->items[item].given = is_hole ? given : 0;
    if (is_hole || !row->adaptor) {
        plan->count++;
        return GM_OK;
    }
    if (*parser->at != '(')
        return gm_refuse(parser->error, parser->error_size, "\"%s\" wraps a resource: write %s(%s%s%sR)", row->name,
                         row->name, row->arguments ? row->arguments : "", row->arguments ? "," : "",
                         row->two ? "R," : "");
    parser->at++;
    gm_status status = read_argument(plan, &parser->at, parser->error, parser->error_size);
    if (status)
        return status;
    plan->count++;
    parser->open++;
    status = parse_wrapped(parser, item);
    parser->open--;
    return status;
}

gm_status gm_stack_parse(const char *text, unsigned given, struct gm_stack_plan *plan, char *error, size_t error_size) {
    struct parser parser = {.at = text, .given = given, .plan = plan, .error = error, .error_size = error_size};
    char shown_text[48];
    memset(plan, 0, sizeof *plan);
    gm_status status = parse_resource(&parser);
    if (status)
        return status;
    parser.at = skip_spaces(parser.at);
    if (!plan->items[0].ops)
        return gm_refuse(error, error_size, "\"%s\" alone makes no resource",
                         shown((struct word){text, strlen(text)}, shown_text));
    if (!*parser.at)
        return GM_OK;
    return gm_refuse(error, error_size, "\"%s\" stands after the end of the resource",
                     shown((struct word){parser.at, strlen(parser.at)}, shown_text));
}

/* An error quotes the argument as the user wrote it. Replaces control characters, so that the error stays one line. */
static void keep_one_line(char *error, size_t size) {
    for (size_t i = 0; i < size && error[i]; i++)
        if ((unsigned char)error[i] < ' ' || error[i] == 127)
            error[i] = '?';
}

#define ALIGNED(bytes) (((bytes) + 63) & ~(size_t)63)

/* A stack lies in one mapping: this head, then each resource with its state, the outermost first. */
struct stack_head {
    size_t bytes;
    unsigned count; /* resources; those given do not count */
    unsigned open;  /* the last so many are open */
    char padding[64 - sizeof(size_t) - 2 * sizeof(unsigned)];
};

static size_t node_bytes(const struct gm_resource_ops *ops) {
    return ALIGNED(sizeof(struct gm_resource)) + ALIGNED(ops->state_size);
}

static size_t stack_bytes(const struct gm_stack_plan *plan) {
    size_t bytes = sizeof(struct stack_head);
    for (unsigned i = 0; i < plan->count; i++)
        bytes += plan->items[i].ops ? node_bytes(plan->items[i].ops) : 0;
    return bytes;
}

const char *gm_property_name(uint64_t properties) {
#define X(enumerator, bit, name) \
    if (properties & enumerator) \
        return name;
    GM_PROPERTIES(X)
#undef X
    return NULL;
}

/* What the resource is, from its row and what it wraps. */
static gm_status describe_node(struct gm_resource *node, char *error, size_t error_size) {
    const struct gm_resource_ops *ops = node->ops;
    const struct gm_resource *wrapped[] = {node->upstream, node->second};
    node->properties = ops->properties;
    node->granule = ops->granule;
    node->kind = node->upstream ? node->upstream->kind : ops->kind;
    node->alignment = node->upstream ? node->upstream->alignment : ops->alignment ? ops->alignment : 8;
    for (unsigned i = 0; i < 2 && wrapped[i]; i++) {
        const char *lacks = gm_property_name(ops->needs & ~wrapped[i]->properties);
        if (lacks)
            return gm_refuse(error, error_size, "\"%s\" cannot wrap %s, whose memory is not %s", ops->name,
                             wrapped[i]->ops->name, lacks);
        node->properties &= wrapped[i]->properties;
        if (wrapped[i]->granule > node->granule)
            node->granule = wrapped[i]->granule;
        if (wrapped[i]->alignment < node->alignment)
            node->alignment = wrapped[i]->alignment;
    }
    if (node->upstream && ops->alignment)
        node->alignment = ops->alignment;
    return GM_OK;
}

static gm_status read_number_into(struct gm_resource *node, const char *argument, char *error, size_t error_size) {
    const struct gm_option *row = node->ops->number;
    if (argument)
        return gm_option_parse(row, argument, node->state, error, error_size) ? GM_INVALID_VALUE : GM_OK;
    return gm_refuse(error, error_size, "\"%s\" needs a number%s: write %s(%s,...)", row->name,
                     row->type == GM_OPTION_BYTES ? " of bytes" : "", row->name, row->initial);
}

static gm_status open_node(struct gm_resource *node, const char *argument, char *error, size_t error_size) {
    gm_status status = describe_node(node, error, error_size);
    if (!status && node->ops->number)
        status = read_number_into(node, argument, error, error_size);
    if (!status && node->ops->open && node->ops->open(node, argument, error, error_size))
        status = GM_INVALID_VALUE;
    return status;
}

/* Resources are opened from the inside out, because an adaptor reads what its upstream is. */
static struct gm_resource *build_plan(const struct gm_stack_plan *plan, struct gm_resource *const *given, char *error,
                                      size_t error_size) {
    struct gm_resource *nodes[GM_STACK_ITEMS];
    struct stack_head *head = gm_pages(stack_bytes(plan));
    if (!head) {
        gm_format(error, error_size, "no memory for %zu bytes of state", stack_bytes(plan));
        return NULL;
    }
    head->bytes = stack_bytes(plan);
    char *at = (char *)(head + 1);
    for (unsigned i = 0; i < plan->count; i++) {
        const struct gm_resource_ops *ops = plan->items[i].ops;
        nodes[i] = ops ? (struct gm_resource *)at : given[plan->items[i].given];
        if (!ops)
            continue;
        head->count++;
        nodes[i]->ops = ops;
        nodes[i]->state = at + ALIGNED(sizeof(struct gm_resource));
        at += node_bytes(ops);
    }
    for (unsigned i = plan->count; i-- > 0;) {
        const struct gm_resource_ops *ops = plan->items[i].ops;
        if (!ops)
            continue;
        nodes[i]->upstream = ops->adaptor ? nodes[i + 1] : NULL;
        nodes[i]->second = plan->items[i].second ? nodes[plan->items[i].second] : NULL;
        if (open_node(nodes[i], plan->items[i].has_argument ? plan->items[i].argument : NULL, error, error_size)) {
            keep_one_line(error, error_size);
            gm_stack_discard((struct gm_resource *)(head + 1));
            return NULL;
        }
        head->open++;
    }
    return nodes[0];
}

struct gm_resource *gm_stack_build(const char *text, struct gm_resource *const *given, unsigned count, char *error,
                                   size_t error_size) {
    struct gm_stack_plan plan;
    return gm_stack_parse(text, count, &plan, error, error_size) ? NULL : build_plan(&plan, given, error, error_size);
}

struct gm_resource *gm_resource_build(const char *text, char *error, size_t error_size) {
    return gm_stack_build(text, NULL, 0, error, error_size);
}

struct gm_resource *gm_stack_of(const struct gm_resource_ops *maker) {
    struct gm_stack_plan plan = {.count = 1, .items = {{.ops = maker}}};
    char error[1];
    return build_plan(&plan, NULL, error, sizeof error);
}

static struct gm_resource *count_down(struct gm_resource *at, unsigned *index) {
    if (!at || !(*index)--)
        return at;
    struct gm_resource *found = count_down(at->upstream, index);
    return found ? found : count_down(at->second, index);
}

struct gm_resource *gm_stack_at(struct gm_resource *top, unsigned index) {
    return count_down(top, &index);
}

struct gm_resource *gm_stack_find(struct gm_resource *top, const struct gm_resource_ops *row) {
    struct gm_resource *at;
    for (unsigned i = 0; (at = gm_stack_at(top, i)) && at->ops != row; i++)
        ;
    return at;
}

size_t gm_stack_trim(struct gm_resource *top, size_t bytes) {
    struct gm_resource *at;
    size_t released = 0;
    for (unsigned i = 0; released < bytes && (at = gm_stack_at(top, i)); i++)
        released += at->ops->trim ? at->ops->trim(at, bytes - released) : 0;
    return released;
}

size_t gm_stack_lend(struct gm_resource *top, size_t bytes) {
    struct gm_resource *at;
    size_t released = 0;
    for (unsigned i = 0; released < bytes && (at = gm_stack_at(top, i)); i++)
        released += at->ops->lend ? at->ops->lend(at, bytes - released) : 0;
    return released;
}

size_t gm_stack_releasable(struct gm_resource *top, int device) {
    struct gm_resource *at;
    size_t bytes = 0;
    for (unsigned i = 0; (at = gm_stack_at(top, i)); i++)
        bytes += at->ops->releasable ? at->ops->releasable(at, device) : 0;
    return bytes;
}

bool gm_stack_keeps(struct gm_resource *top, uint64_t address) {
    struct gm_resource *at;
    for (unsigned i = 0; (at = gm_stack_at(top, i)); i++)
        if (at->ops->keeps && at->ops->keeps(at, address))
            return true;
    return false;
}

/* The outermost resource comes right after the head. */
void gm_stack_discard(struct gm_resource *top) {
    if (!top)
        return;
    struct stack_head *head = (struct stack_head *)top - 1;
    char *at = (char *)top;
    for (unsigned i = 0; i < head->count; i++) {
        struct gm_resource *node = (struct gm_resource *)at;
        at += node_bytes(node->ops);
        if (i >= head->count - head->open && node->ops->close)
            node->ops->close(node);
    }
    munmap(head, head->bytes);
}

/* Promises and the properties that keep them. Memory keeps a promise if it has all properties of the row. */
static const struct {
    uint32_t promise, properties;
} kept_by[] = {
    {GM_PROMISE_READY_ANYWHERE, GM_PROP_READY_ANYWHERE},
    {GM_PROMISE_STREAM_ORDER, GM_PROP_STREAM_ORDERED},
    {GM_PROMISE_DEVICE_ACCESS, GM_PROP_DEVICE_ACCESSIBLE},
    {GM_PROMISE_HOST_ACCESS, GM_PROP_HOST_ACCESSIBLE},
    /* Memory is managed memory if host and device access it and it may exceed the device. */
    {GM_PROMISE_MANAGED, GM_PROP_DEVICE_ACCESSIBLE | GM_PROP_HOST_ACCESSIBLE | GM_PROP_OVERSUBSCRIBABLE},
    {GM_PROMISE_CAPTURE, GM_PROP_CAPTURABLE},
    {GM_PROMISE_IPC, GM_PROP_IPC},
    {GM_PROMISE_PEER, GM_PROP_PEER},
    {GM_PROMISE_RDMA, GM_PROP_RDMA},
};

uint32_t gm_resource_unkept(uint32_t properties) {
    uint32_t unkept = 0;
    for (size_t i = 0; i < sizeof kept_by / sizeof *kept_by; i++)
        if (kept_by[i].properties & ~properties)
            unkept |= kept_by[i].promise;
    return unkept;
}

bool gm_resource_keeps(uint32_t properties, const struct gm_request *request) {
    return !(request->promises & GM_PROMISES_HARD & gm_resource_unkept(properties));
}

uint32_t gm_resource_drops(uint32_t properties, const struct gm_request *request) {
    return request->promises & GM_PROMISES_SOFT & gm_resource_unkept(properties);
}
