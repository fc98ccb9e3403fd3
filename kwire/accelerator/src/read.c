/* Reads messages by plan. Bytes that are not as they should be give NULL without an exception; who calls raises
   FastPathError, and the schema-driven codec finds the field and the offset. */
#include "plan.h"

static PyObject *read_array(Cursor *cursor, const Field *field);

/* A value of fixed size, whose bytes are there. */
static inline PyObject *make_fixed(int kind, const uint8_t *p) {
    switch (kind) {
    case KIND_BOOL:
        return *p > 1 ? NULL : PyBool_FromLong(*p);
    case KIND_INT8:
        return PyLong_FromLong((int8_t)*p);
    case KIND_UINT8:
        return PyLong_FromLong(*p);
    case KIND_INT16:
        return PyLong_FromLong((int16_t)load_u16(p));
    case KIND_UINT16:
        return PyLong_FromLong(load_u16(p));
    case KIND_INT32:
        return PyLong_FromLong((int32_t)load_u32(p));
    case KIND_UINT32:
        return PyLong_FromUnsignedLong(load_u32(p));
    case KIND_INT64:
        return PyLong_FromLongLong((int64_t)load_u64(p));
    case KIND_UUID:
        return PyBytes_FromStringAndSize((const char *)p, 16);
    default: {
        uint64_t bits = load_u64(p);
        double value;
        memcpy(&value, &bits, 8);
        return PyFloat_FromDouble(value);
    }
    }
}

/* A string, bytes or record batches. */
static PyObject *read_sized(Cursor *cursor, const Field *field, int is_nullable) {
    Py_ssize_t size = read_length(cursor, field->flexible, field->kind == KIND_STRING);
    if (size < 0) {
        return size == -1 && is_nullable ? Py_NewRef(Py_None) : NULL;
    }
    if (size > cursor->end - cursor->at || (field->kind == KIND_STRING && size > TEXT_BYTES_MAX)) {
        return NULL;
    }
    Py_ssize_t at = cursor->at;
    cursor->at += size;
    if (field->kind == KIND_STRING) {
        return make_text(cursor->data + at, size);
    }
    if (field->kind == KIND_BYTES) {
        return PyBytes_FromStringAndSize((const char *)cursor->data + at, size);
    }
    return make_view(cursor, at, size);
}

static PyObject *read_nested(Cursor *cursor, const Field *field) {
    if (field->nullable) {
        if (cursor->at >= cursor->end) {
            return NULL;
        }
        uint8_t marker = cursor->data[cursor->at++];
        if (marker == (field->tagged ? 0 : 255)) {
            return Py_NewRef(Py_None);
        }
        if (marker != 1) {
            return NULL;
        }
    }
    return read_struct(cursor, field->plan);
}

/* A field that is not of fixed size. */
static inline PyObject *read_variable(Cursor *cursor, const Field *field) {
    if (field->is_array) {
        return read_array(cursor, field);
    }
    return field->kind == KIND_STRUCT ? read_nested(cursor, field) : read_sized(cursor, field, field->nullable);
}

/* Any field. */
static PyObject *read_field(Cursor *cursor, const Field *field) {
    if (field->is_array || field->kind >= KIND_STRING) {
        return read_variable(cursor, field);
    }
    Py_ssize_t at = cursor->at, size = fixed_size(field->kind);
    if (cursor->end - at < size) {
        return NULL;
    }
    cursor->at += size;
    return make_fixed(field->kind, cursor->data + at);
}

static PyObject *read_structs(Cursor *cursor, const Plan *plan, Py_ssize_t count) {
    PyObject *list = PyList_New(count);
    for (Py_ssize_t i = 0; list != NULL && i < count; i++) {
        PyObject *item = read_struct(cursor, plan);
        if (item == NULL) {
            Py_CLEAR(list);
        } else {
            PyList_SET_ITEM(list, i, item);
        }
    }
    return list;
}

/* The values of an array of fixed size, whose bytes are there. */
static int fill_fixed(Cursor *cursor, int kind, PyObject *tuple, Py_ssize_t count) {
    const uint8_t *p = cursor->data + cursor->at;
    Py_ssize_t size = fixed_size(kind);
    cursor->at += count * size;
    for (Py_ssize_t i = 0; i < count; i++, p += size) {
        PyObject *item = kind == KIND_INT32 ? PyLong_FromLong((int32_t)load_u32(p)) : make_fixed(kind, p);
        if (item == NULL) {
            return -1;
        }
        PyTuple_SET_ITEM(tuple, i, item);
    }
    return 0;
}

static int fill_sized(Cursor *cursor, const Field *field, PyObject *tuple, Py_ssize_t count) {
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *item = read_sized(cursor, field, 0);
        if (item == NULL) {
            return -1;
        }
        PyTuple_SET_ITEM(tuple, i, item);
    }
    return 0;
}

/* An array of one int8, as most acknowledgements have it: one tuple for each value, shared. */
static PyObject *one_int8(Cursor *cursor) {
    static PyObject *tuples[256];
    uint8_t byte = cursor->data[cursor->at++];
    if (tuples[byte] == NULL) {
        tuples[byte] = Py_BuildValue("(i)", (int)(int8_t)byte);
    }
    return Py_XNewRef(tuples[byte]);
}

static PyObject *read_array(Cursor *cursor, const Field *field) {
    Py_ssize_t count = read_length(cursor, field->flexible, 0);
    if (count < 0) {
        return count == -1 && field->nullable ? Py_NewRef(Py_None) : NULL;
    }
    /* A count is refused before memory is allocated for it. */
    Py_ssize_t size_min = field->kind == KIND_STRUCT ? field->plan->size_min
                          : field->kind < KIND_STRING ? fixed_size(field->kind)
                                                      : 1;
    if (count > (cursor->end - cursor->at) / (size_min > 0 ? size_min : 1)) {
        return NULL;
    }
    if (field->kind == KIND_STRUCT) {
        return read_structs(cursor, field->plan, count);
    }
    if (count == 1 && field->kind == KIND_INT8) {
        return one_int8(cursor);
    }
    PyObject *tuple = PyTuple_New(count);
    if (tuple == NULL || count == 0) {
        return tuple;
    }
    int status = field->kind < KIND_STRING ? fill_fixed(cursor, field->kind, tuple, count)
                                           : fill_sized(cursor, field, tuple, count);
    if (status < 0) {
        Py_DECREF(tuple);
        return NULL;
    }
    if (field->kind != KIND_RECORDS) {
        /* Its items refer to nothing: what the collector does with such a tuple when it meets it. */
        PyObject_GC_UnTrack(tuple);
    }
    return tuple;
}

static PyObject *default_value(const Plan *plan, Py_ssize_t index) {
    const Default *one = &plan->defaults[index];
    if (one->kind == DEFAULT_LIST) {
        return PyList_New(0);
    }
    if (one->kind == DEFAULT_STRUCT) {
        return default_struct(plan->default_plans[index]);
    }
    Py_INCREF(one->value);
    return one->value;
}

static PyObject *no_tags(void) {
    return PyTuple_New(0);
}

PyObject *default_struct(const Plan *plan) {
    PyObject *object = new_struct(plan);
    if (object == NULL) {
        return NULL;
    }
    for (Py_ssize_t i = 0; i < plan->default_count; i++) {
        PyObject *value = default_value(plan, i);
        if (value == NULL) {
            Py_DECREF(object);
            return NULL;
        }
        *slot_of(object, plan->defaults[i].offset) = value;
    }
    if (plan->unknown_offset) {
        *slot_of(object, plan->unknown_offset) = no_tags();
    }
    return object;
}

static const Tagged *find_tagged(const Plan *plan, uint32_t tag) {
    for (Py_ssize_t i = 0; i < plan->tagged_count; i++) {
        if (plan->tagged[i].tag == tag) {
            return &plan->tagged[i];
        }
    }
    return NULL;
}

/* One tagged field of `size` bytes: into its slot if the schema has it, else to the list of unknown ones. */
static int read_tagged_field(Cursor *cursor, const Plan *plan, PyObject *object, PyObject *unknown, uint32_t tag,
                             Py_ssize_t size) {
    const Tagged *tagged = find_tagged(plan, tag);
    if (tagged != NULL) {
        Py_ssize_t end = cursor->at + size;
        /* As in Kafka, a tag of another version is an error, not an unknown field. */
        PyObject *value = tagged->live ? read_field(cursor, &tagged->field) : NULL;
        if (value == NULL || cursor->at != end) {
            Py_XDECREF(value);
            return -1;
        }
        PyObject **slot = slot_of(object, tagged->field.offset);
        PyObject *before = *slot;
        *slot = value;
        Py_XDECREF(before);
        return 0;
    }
    PyObject *pair = Py_BuildValue("(Iy#)", (unsigned int)tag, (const char *)cursor->data + cursor->at, size);
    if (pair == NULL) {
        return -1;
    }
    int status = PyList_Append(unknown, pair);
    Py_DECREF(pair);
    cursor->at += size;
    return status;
}

static int read_tags(Cursor *cursor, const Plan *plan, PyObject *object) {
    uint32_t count, tag, size;
    int64_t previous = -1;
    if (!read_uvarint(cursor, &count)) {
        return -1;
    }
    PyObject *unknown = PyList_New(0);
    if (unknown == NULL) {
        return -1;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (!read_uvarint(cursor, &tag) || !read_uvarint(cursor, &size) || (int64_t)tag <= previous ||
            tag > INT32_MAX || (Py_ssize_t)size > cursor->end - cursor->at ||
            read_tagged_field(cursor, plan, object, unknown, tag, (Py_ssize_t)size) < 0) {
            Py_DECREF(unknown);
            return -1;
        }
        previous = tag;
    }
    PyObject *tags = PyList_AsTuple(unknown);
    Py_DECREF(unknown);
    if (tags == NULL) {
        return -1;
    }
    *slot_of(object, plan->unknown_offset) = tags;
    return 0;
}

PyObject *read_struct(Cursor *cursor, const Plan *plan) {
    PyObject *object = new_struct(plan);
    if (object == NULL) {
        return NULL;
    }
    const Field *end = plan->fields + plan->field_count;
    for (const Field *field = plan->fields; field < end; field++) {
        PyObject *value;
        if (field->run_size > cursor->end - cursor->at) {
            goto failed;
        }
        if (field->is_array || field->kind >= KIND_STRING) {
            value = read_variable(cursor, field);
        } else {
            value = make_fixed(field->kind, cursor->data + cursor->at);
            cursor->at += fixed_size(field->kind);
        }
        if (value == NULL) {
            goto failed;
        }
        *slot_of(object, field->offset) = value;
    }
    for (Py_ssize_t i = 0; i < plan->absent_count; i++) {
        Py_ssize_t index = plan->absent[i];
        PyObject *value = default_value(plan, index);
        if (value == NULL) {
            goto failed;
        }
        *slot_of(object, plan->defaults[index].offset) = value;
    }
    if (plan->flexible) {
        if (cursor->at >= cursor->end) {
            goto failed;
        }
        if (cursor->data[cursor->at] != 0) {
            if (read_tags(cursor, plan, object) < 0) {
                goto failed;
            }
            return object;
        }
        cursor->at++;
    }
    if (plan->unknown_offset) {
        PyObject *tags = no_tags();
        if (tags == NULL) {
            goto failed;
        }
        *slot_of(object, plan->unknown_offset) = tags;
    }
    return object;

failed:
    Py_DECREF(object);
    return NULL;
}
