/* The fields that the one-line summary of a message depends on, and what is found in them. */
#ifndef KWIRE_SUMMARY_H
#define KWIRE_SUMMARY_H

#include "plan.h"

/* Limits of what is read here; a message above one of them is left to the Python code. */
#define KEY_MAX 1024
#define TEXT_MAX 512
#define KINDS_MAX 8

#define RANGES_SHOWN 3

/* What a field is for; kwire/capture/rows/summary_description.py has the same numbers. */
enum Role {
    ROLE_NONE,
    ROLE_KEY,
    ROLE_RECORDS,
    ROLE_RANGE_FIRST,
    ROLE_RANGE_LAST,
    ROLE_RANGE_COUNT,
    ROLE_ACK_FIRST,
    ROLE_ACK_LAST,
    ROLE_ACK_TYPES,
    ROLE_EPOCH,
    ROLE_WAIT,
    ROLE_COUNT
};

struct SummaryStruct;

/* A field in the order of the wire; `skipped` are the bytes of the fields of fixed size before it. */
typedef struct {
    uint8_t kind; /* As in plan.h. */
    uint8_t is_array;
    uint8_t nullable;
    uint8_t flexible;
    uint8_t role;
    Py_ssize_t skipped;
    struct SummaryStruct *inner;
} SummaryField;

typedef struct SummaryStruct {
    uint8_t flexible;
    Py_ssize_t count;
    Py_ssize_t skipped; /* Behind the last field. */
    SummaryField *fields;
} SummaryStruct;

/* What was found in a message. */
typedef struct {
    uint8_t key[KEY_MAX];
    Py_ssize_t key_size;
    int64_t record_count, record_bytes;
    int codec; /* Of compressed records; 0 for none. */
    int64_t first, last;
    Py_ssize_t range_count;
    char ranges[TEXT_MAX];
    int ranges_size;
    int8_t kinds[KINDS_MAX];
    int64_t kind_counts[KINDS_MAX];
    int kind_count;
    int32_t epoch, wait;
    int has_epoch;
} Found;

/* Adds what is in a struct to what was found, all set to zero before: -1 when only the Python code can do it, never with
   an exception. (summary_found.c) */
int find_in_struct(Cursor *cursor, Found *found, const SummaryStruct *part);

#endif
