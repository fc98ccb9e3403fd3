/* Plans: what a version of a message has, as tables that reading and writing follow. */
#ifndef KWIRE_PLAN_H
#define KWIRE_PLAN_H

#include "native.h"

/* The kinds of values; kwire/accelerator/plans.py has the same numbers. */
enum Kind {
    KIND_BOOL,
    KIND_INT8,
    KIND_UINT8,
    KIND_INT16,
    KIND_UINT16,
    KIND_INT32,
    KIND_UINT32,
    KIND_INT64,
    KIND_FLOAT64,
    KIND_UUID,
    KIND_STRING,
    KIND_BYTES,
    KIND_RECORDS,
    KIND_STRUCT,
    KIND_COUNT
};

/* What a class has in a field by default. */
enum DefaultKind {
    DEFAULT_OBJECT, /* An immutable object that all messages share. */
    DEFAULT_LIST,   /* A new empty list. */
    DEFAULT_STRUCT, /* A new struct of defaults. */
    DEFAULT_COUNT
};

struct Plan;

/* A field in the order of the wire. */
typedef struct {
    uint8_t kind; /* Of the value, or of the elements of an array. */
    uint8_t is_array;
    uint8_t nullable;
    uint8_t flexible;
    uint8_t tagged;     /* Null structs have another marker in tagged fields. */
    Py_ssize_t run_size; /* Bytes of the fields of fixed size from here on; 0 unless the first of them. */
    Py_ssize_t offset;   /* Of the slot in the object. */
    struct Plan *plan;   /* Of a struct, owned. */
} Field;

/* The default of a field of the class; for all fields of the class in order. */
typedef struct {
    uint8_t kind;
    uint8_t present;  /* The version has the field outside of the tagged fields: reading always sets it. */
    uint8_t required; /* A version without the field must not lose a value that is not the default. */
    uint8_t nullable; /* Null in some version: then null is not the default of an array. */
    Py_ssize_t offset;
    PyObject *value; /* Borrowed from the description; of a struct its class. */
} Default;

/* A tagged field of the schema. */
typedef struct {
    uint32_t tag;
    uint8_t live; /* The version has it. */
    Py_ssize_t default_index;
    Field field;
} Tagged;

/* One struct of one version. Objects are borrowed from the description, which the codec owns. */
typedef struct Plan {
    PyTypeObject *type;
    uint8_t flexible;
    uint32_t schema_tags; /* Tags of the schema are below it, unknown ones are not. */
    Py_ssize_t field_count;
    Field *fields;
    Py_ssize_t default_count;
    Default *defaults;
    struct Plan **default_plans; /* By default: of structs, to compare with; else NULL. */
    Py_ssize_t absent_count;
    Py_ssize_t *absent; /* The defaults that reading sets: the version lacks the field, or has it as a tagged one. */
    Py_ssize_t required_count;
    Py_ssize_t *required; /* The defaults that writing compares with. */
    Py_ssize_t tagged_count;
    Tagged *tagged;
    Py_ssize_t unknown_offset; /* Of the unknown tagged fields; 0 when the class has none. */
    Py_ssize_t size_min;       /* Fewest bytes on the wire. */
    Py_ssize_t slot_count;     /* All slots, from the end of the object's head on. */
    uint8_t is_simple;         /* Allocated by PyObject_Malloc, without anything behind the slots. */
} Plan;

/* Bytes of the kinds of fixed size. */
static inline Py_ssize_t fixed_size(int kind) {
    static const uint8_t sizes[KIND_STRING] = {1, 1, 1, 2, 2, 4, 4, 8, 8, 16};
    return sizes[kind];
}

/* The plan of a description (see plans.py), or NULL with an exception: TypeError when a class is not laid out as the
   plan needs, ValueError for a wrong description. */
Plan *make_plan(PyObject *description);

void free_plan(Plan *plan);

/* The offset of a slot in the objects of a class; -1 with TypeError. */
Py_ssize_t find_slot(PyTypeObject *type, PyObject *name);

/* -1 with TypeError unless an object of the class is this many slots, without garbage collection. */
int check_layout(PyTypeObject *type, Py_ssize_t slots);

/* The value of a slot, borrowed. */
static inline PyObject **slot_of(PyObject *object, Py_ssize_t offset) {
    return (PyObject **)((char *)object + offset);
}

/* A new object of the plan, its defaults not set: NULL with an exception when there is no memory. */
static inline PyObject *new_struct(const Plan *plan) {
    if (!plan->is_simple) {
        return plan->type->tp_alloc(plan->type, 0);
    }
    PyObject *object = PyObject_Malloc((size_t)plan->type->tp_basicsize);
    if (object == NULL) {
        return PyErr_NoMemory();
    }
    PyObject **slots = slot_of(object, sizeof(PyObject));
    for (Py_ssize_t i = 0; i < plan->slot_count; i++) {
        slots[i] = NULL;
    }
    return PyObject_Init(object, plan->type);
}

/* Reads a struct; NULL, with or without an exception, when the bytes are not as they should be. (read.c) */
PyObject *read_struct(Cursor *cursor, const Plan *plan);

/* A struct of defaults. (read.c) */
PyObject *default_struct(const Plan *plan);

/* Bytes that are written, and objects whose bytes are not copied but referred to. (write.c) */
typedef struct {
    Py_ssize_t at; /* Where in the written bytes its content belongs. */
    PyObject *object; /* bytes or memoryview, owned. */
    Py_ssize_t size;
} Reference;

typedef struct {
    uint8_t *data;
    Py_ssize_t size;
    Py_ssize_t capacity;
    Reference *references;
    Py_ssize_t reference_count;
    Py_ssize_t reference_capacity;
    Py_ssize_t referred; /* Bytes of all references. */
    int copies_only;     /* Inside of tagged fields, whose size must be known. */
    int is_scratch;      /* The data is the shared scratch buffer. */
} Output;

/* Writes a struct; -1, with or without an exception, when the pure code must do it. */
int write_struct(Output *out, const Plan *plan, PyObject *object);

/* An output with the scratch buffer if it is free. */
void open_output(Output *out);
void close_output(Output *out);

/* All as one bytes object, or as a list of parts; NULL with an exception. */
PyObject *output_bytes(Output *out);
PyObject *output_parts(Output *out);

#endif
