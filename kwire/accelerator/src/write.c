/* Writes messages by plan, into a buffer that grows; large bytes are referred to and copied once, at the end. A value
   of an unusual type or out of its range gives -1 without an exception: the pure code then writes, or raises. */
#include "plan.h"

/* Bytes at least this large are referred to. */
#define REFERENCE_BYTES 512

#define SCRATCH_BYTES (64 * 1024)

static uint8_t scratch[SCRATCH_BYTES];
static int scratch_is_used;

void open_output(Output *out) {
    memset(out, 0, sizeof(Output));
    if (!scratch_is_used) {
        scratch_is_used = 1;
        out->is_scratch = 1;
        out->data = scratch;
        out->capacity = SCRATCH_BYTES;
    }
}

void close_output(Output *out) {
    for (Py_ssize_t i = 0; i < out->reference_count; i++) {
        Py_DECREF(out->references[i].object);
    }
    PyMem_Free(out->references);
    if (out->data == scratch) {
        out->data = NULL;
    }
    PyMem_Free(out->data);
    if (out->is_scratch) {
        scratch_is_used = 0;
    }
}

static int grow(Output *out, Py_ssize_t need) {
    if (need > PY_SSIZE_T_MAX / 2 - out->size) {
        PyErr_NoMemory();
        return -1;
    }
    Py_ssize_t capacity = (out->size + need) * 2;
    uint8_t *data;
    if (out->data == scratch) {
        data = PyMem_Malloc((size_t)capacity);
        if (data != NULL) {
            memcpy(data, scratch, (size_t)out->size);
        }
    } else {
        data = PyMem_Realloc(out->data, (size_t)capacity);
    }
    if (data == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    out->data = data;
    out->capacity = capacity;
    return 0;
}

/* Memory for `need` more bytes at the end; NULL with an exception. */
static inline uint8_t *reserve(Output *out, Py_ssize_t need) {
    if (out->capacity - out->size < need && grow(out, need) < 0) {
        return NULL;
    }
    return out->data + out->size;
}

static inline Py_ssize_t put_uvarint(uint8_t *p, uint32_t value) {
    Py_ssize_t size = 0;
    while (value > 127) {
        p[size++] = (uint8_t)(value | 128);
        value >>= 7;
    }
    p[size++] = (uint8_t)value;
    return size;
}

static int write_uvarint(Output *out, uint32_t value) {
    uint8_t *p = reserve(out, 5);
    if (p == NULL) {
        return -1;
    }
    out->size += put_uvarint(p, value);
    return 0;
}

/* A size or count; -1 is null. */
static int write_length(Output *out, Py_ssize_t length, int flexible, int is_int16) {
    uint8_t *p = reserve(out, 5);
    if (p == NULL) {
        return -1;
    }
    if (flexible) {
        if (length > (Py_ssize_t)UINT32_MAX - 1) {
            return -1;
        }
        out->size += put_uvarint(p, (uint32_t)(length + 1));
    } else if (is_int16) {
        store_u16(p, (uint16_t)length);
        out->size += 2;
    } else {
        if (length > INT32_MAX) {
            return -1;
        }
        store_u32(p, (uint32_t)length);
        out->size += 4;
    }
    return 0;
}

/* The number of an int, or of a member of an IntEnum; -1 when it is none, or has more than 64 bits. */
static inline int number_of(PyObject *value, long long *number) {
    if (!PyLong_Check(value) || PyBool_Check(value)) {
        return -1;
    }
#if PY_VERSION_HEX < 0x030C0000
    Py_ssize_t size = Py_SIZE(value);
    if (size >= -1 && size <= 1) {
        *number = size == 0 ? 0 : size * (long long)((PyLongObject *)value)->ob_digit[0];
        return 0;
    }
#else
    if (PyUnstable_Long_IsCompact((PyLongObject *)value)) {
        *number = PyUnstable_Long_CompactValue((PyLongObject *)value);
        return 0;
    }
#endif
    int overflow;
    *number = PyLong_AsLongLongAndOverflow(value, &overflow);
    return overflow ? -1 : 0;
}

/* A value of fixed size into memory that is there. */
static inline int put_fixed(uint8_t *p, int kind, PyObject *value) {
    long long number;
    if (kind >= KIND_INT8 && kind <= KIND_INT64) {
        if (number_of(value, &number) < 0) {
            return -1;
        }
        switch (kind) {
        case KIND_INT8:
            *p = (uint8_t)number;
            return number == (int8_t)number ? 0 : -1;
        case KIND_UINT8:
            *p = (uint8_t)number;
            return number == (uint8_t)number ? 0 : -1;
        case KIND_INT16:
            store_u16(p, (uint16_t)number);
            return number == (int16_t)number ? 0 : -1;
        case KIND_UINT16:
            store_u16(p, (uint16_t)number);
            return number == (uint16_t)number ? 0 : -1;
        case KIND_INT32:
            store_u32(p, (uint32_t)number);
            return number == (int32_t)number ? 0 : -1;
        case KIND_UINT32:
            store_u32(p, (uint32_t)number);
            return number == (uint32_t)number ? 0 : -1;
        default:
            store_u64(p, (uint64_t)number);
            return 0;
        }
    }
    if (kind == KIND_BOOL) {
        *p = value == Py_True;
        return value == Py_True || value == Py_False ? 0 : -1;
    }
    if (kind == KIND_UUID) {
        if (!PyBytes_CheckExact(value) || PyBytes_GET_SIZE(value) != 16) {
            return -1;
        }
        memcpy(p, PyBytes_AS_STRING(value), 16);
        return 0;
    }
    if (!PyFloat_CheckExact(value)) {
        return -1;
    }
    double real = PyFloat_AS_DOUBLE(value);
    uint64_t bits;
    memcpy(&bits, &real, 8);
    store_u64(p, bits);
    return 0;
}

static int write_raw(Output *out, const void *data, Py_ssize_t size) {
    uint8_t *p = reserve(out, size);
    if (p == NULL) {
        return -1;
    }
    memcpy(p, data, (size_t)size);
    out->size += size;
    return 0;
}

static int write_text(Output *out, const Field *field, PyObject *value) {
    if (!PyUnicode_CheckExact(value)) {
        return -1;
    }
    if (PyUnicode_IS_COMPACT_ASCII(value)) {
        Py_ssize_t size = PyUnicode_GET_LENGTH(value);
        if (size > TEXT_BYTES_MAX || write_length(out, size, field->flexible, 1) < 0) {
            return -1;
        }
        return write_raw(out, PyUnicode_1BYTE_DATA(value), size);
    }
    PyObject *encoded = PyUnicode_AsUTF8String(value);
    if (encoded == NULL) {
        return -1;
    }
    Py_ssize_t size = PyBytes_GET_SIZE(encoded);
    int status = -1;
    if (size <= TEXT_BYTES_MAX && write_length(out, size, field->flexible, 1) == 0) {
        status = write_raw(out, PyBytes_AS_STRING(encoded), size);
    }
    Py_DECREF(encoded);
    return status;
}

static int refer(Output *out, PyObject *object, Py_ssize_t size) {
    if (out->reference_count == out->reference_capacity) {
        Py_ssize_t capacity = out->reference_capacity * 2 + 8;
        Reference *references = PyMem_Realloc(out->references, (size_t)capacity * sizeof(Reference));
        if (references == NULL) {
            PyErr_NoMemory();
            return -1;
        }
        out->references = references;
        out->reference_capacity = capacity;
    }
    Reference *reference = &out->references[out->reference_count++];
    Py_INCREF(object);
    reference->at = out->size;
    reference->object = object;
    reference->size = size;
    out->referred += size;
    return 0;
}

static int write_bytes(Output *out, const Field *field, PyObject *value) {
    if (PyBytes_CheckExact(value)) {
        Py_ssize_t size = PyBytes_GET_SIZE(value);
        if (write_length(out, size, field->flexible, 0) < 0) {
            return -1;
        }
        if (size >= REFERENCE_BYTES && !out->copies_only) {
            return refer(out, value, size);
        }
        return write_raw(out, PyBytes_AS_STRING(value), size);
    }
    if (!PyMemoryView_Check(value)) {
        return -1;
    }
    Py_buffer buffer;
    if (PyObject_GetBuffer(value, &buffer, PyBUF_SIMPLE) < 0) {
        return -1;
    }
    int status = write_length(out, buffer.len, field->flexible, 0);
    if (status == 0) {
        status = buffer.len >= REFERENCE_BYTES && !out->copies_only ? refer(out, value, buffer.len)
                                                                    : write_raw(out, buffer.buf, buffer.len);
    }
    PyBuffer_Release(&buffer);
    return status;
}

static int write_sized(Output *out, const Field *field, PyObject *value) {
    return field->kind == KIND_STRING ? write_text(out, field, value) : write_bytes(out, field, value);
}

static int write_fixed_items(Output *out, int kind, PyObject **items, Py_ssize_t count) {
    Py_ssize_t size = fixed_size(kind);
    if (count > PY_SSIZE_T_MAX / 32) {
        return -1;
    }
    uint8_t *p = reserve(out, count * size);
    if (p == NULL) {
        return -1;
    }
    for (Py_ssize_t i = 0; i < count; i++, p += size) {
        if (put_fixed(p, kind, items[i]) < 0) {
            return -1;
        }
    }
    out->size += count * size;
    return 0;
}

static int write_array(Output *out, const Field *field, PyObject *value) {
    /* Nothing below runs Python code, so neither a list nor a tuple can change meanwhile. */
    if (!PyList_CheckExact(value) && !PyTuple_CheckExact(value)) {
        return -1;
    }
    Py_ssize_t count = PySequence_Fast_GET_SIZE(value);
    PyObject **items = PySequence_Fast_ITEMS(value);
    if (write_length(out, count, field->flexible, 0) < 0) {
        return -1;
    }
    if (field->kind < KIND_STRING) {
        return write_fixed_items(out, field->kind, items, count);
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        int status = field->kind == KIND_STRUCT ? write_struct(out, field->plan, items[i])
                                                : write_sized(out, field, items[i]);
        if (status < 0) {
            return -1;
        }
    }
    return 0;
}

static int write_null(Output *out, const Field *field) {
    if (!field->nullable) {
        return -1;
    }
    if (field->is_array || field->kind != KIND_STRUCT) {
        return write_length(out, -1, field->flexible, !field->is_array && field->kind == KIND_STRING);
    }
    uint8_t marker = field->tagged ? 0 : 255;
    return write_raw(out, &marker, 1);
}

/* A field that is not of fixed size. */
static inline int write_variable(Output *out, const Field *field, PyObject *value) {
    if (value == Py_None) {
        return write_null(out, field);
    }
    if (field->is_array) {
        return write_array(out, field, value);
    }
    if (field->kind != KIND_STRUCT) {
        return write_sized(out, field, value);
    }
    if (field->nullable) {
        uint8_t marker = 1;
        if (write_raw(out, &marker, 1) < 0) {
            return -1;
        }
    }
    return write_struct(out, field->plan, value);
}

/* Any field. */
static int write_field(Output *out, const Field *field, PyObject *value) {
    if (field->is_array || field->kind >= KIND_STRING) {
        return write_variable(out, field, value);
    }
    return write_fixed_items(out, field->kind, &value, 1);
}

static int is_default(const Plan *plan, Py_ssize_t index, PyObject *object, int is_exact);

/* Whether a struct has only defaults: 1 or 0; -1 when the pure code must compare. */
static int is_default_struct(const Plan *plan, PyObject *object) {
    if (Py_TYPE(object) != plan->type) {
        return -1;
    }
    for (Py_ssize_t i = 0; i < plan->default_count; i++) {
        int same = is_default(plan, i, object, 1);
        if (same != 1) {
            return same;
        }
    }
    if (plan->unknown_offset == 0) {
        return 1;
    }
    PyObject *tags = *slot_of(object, plan->unknown_offset);
    return tags != NULL && PyTuple_CheckExact(tags) ? PyTuple_GET_SIZE(tags) == 0 : -1;
}

/* Whether a field has its default: 1 or 0; -1 when the pure code must compare. Inside of a struct the comparison is
   exact, where it is that of two structs: an empty tuple is then no empty list. */
static int is_default(const Plan *plan, Py_ssize_t index, PyObject *object, int is_exact) {
    const Default *one = &plan->defaults[index];
    PyObject *value = *slot_of(object, one->offset);
    if (value == NULL) {
        return -1;
    }
    if (one->kind == DEFAULT_STRUCT) {
        return value == Py_None ? 0 : is_default_struct(plan->default_plans[index], value);
    }
    if (value == one->value && one->kind == DEFAULT_OBJECT) {
        return 1;
    }
    if (one->kind == DEFAULT_LIST || PyTuple_CheckExact(one->value)) {
        if (value == Py_None) {
            return is_exact || one->nullable ? 0 : 1;
        }
        if (is_exact && PyTuple_CheckExact(value) != (one->kind != DEFAULT_LIST)) {
            return -1;
        }
        return PyList_CheckExact(value) || PyTuple_CheckExact(value) ? PySequence_Fast_GET_SIZE(value) == 0 : -1;
    }
    if (one->value == Py_None || value == Py_None) {
        return 0;
    }
    PyTypeObject *type = Py_TYPE(one->value);
    if (type == &PyBool_Type) {
        return value == Py_True || value == Py_False ? 0 : -1;
    }
    if (type != Py_TYPE(value) || (type != &PyLong_Type && type != &PyUnicode_Type && type != &PyBytes_Type)) {
        return -1;
    }
    return PyObject_RichCompareBool(value, one->value, Py_EQ);
}

/* The content of a tagged field behind its tag and size: written with the widest size first, then moved. */
static int write_tagged_field(Output *out, const Tagged *tagged, PyObject *value) {
    if (write_uvarint(out, tagged->tag) < 0 || reserve(out, 5) == NULL) {
        return -1;
    }
    Py_ssize_t size_at = out->size;
    out->size += 5;
    out->copies_only++;
    int status = write_field(out, &tagged->field, value);
    out->copies_only--;
    if (status < 0) {
        return -1;
    }
    Py_ssize_t size = out->size - size_at - 5;
    if (size > INT32_MAX) {
        return -1;
    }
    Py_ssize_t width = put_uvarint(out->data + size_at, (uint32_t)size);
    if (width < 5) {
        memmove(out->data + size_at + width, out->data + size_at + 5, (size_t)size);
        out->size -= 5 - width;
    }
    return 0;
}

/* Unknown tagged fields: pairs of tag and bytes, ascending, above those of the schema. */
static int write_unknown(Output *out, const Plan *plan, PyObject *tags) {
    long long previous = (long long)plan->schema_tags - 1;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tags); i++) {
        PyObject *pair = PyTuple_GET_ITEM(tags, i);
        if (!PyTuple_CheckExact(pair) || PyTuple_GET_SIZE(pair) != 2 ||
            !PyLong_CheckExact(PyTuple_GET_ITEM(pair, 0)) || !PyBytes_CheckExact(PyTuple_GET_ITEM(pair, 1))) {
            return -1;
        }
        int overflow;
        long long tag = PyLong_AsLongLongAndOverflow(PyTuple_GET_ITEM(pair, 0), &overflow);
        PyObject *content = PyTuple_GET_ITEM(pair, 1);
        Py_ssize_t size = PyBytes_GET_SIZE(content);
        if (overflow || tag <= previous || tag > INT32_MAX || size > INT32_MAX) {
            return -1;
        }
        previous = tag;
        if (write_uvarint(out, (uint32_t)tag) < 0 || write_uvarint(out, (uint32_t)size) < 0 ||
            write_raw(out, PyBytes_AS_STRING(content), size) < 0) {
            return -1;
        }
    }
    return 0;
}

static int write_tags(Output *out, const Plan *plan, PyObject *object) {
    PyObject *unknown = *slot_of(object, plan->unknown_offset);
    if (unknown == NULL || !PyTuple_CheckExact(unknown)) {
        return -1;
    }
    Py_ssize_t count = PyTuple_GET_SIZE(unknown);
    if (count == 0 && plan->tagged_count == 0) {
        uint8_t *p = reserve(out, 1);
        if (p == NULL) {
            return -1;
        }
        *p = 0;
        out->size++;
        return 0;
    }
    for (Py_ssize_t i = 0; i < plan->tagged_count; i++) {
        if (plan->tagged[i].live) {
            int same = is_default(plan, plan->tagged[i].default_index, object, 0);
            if (same < 0) {
                return -1;
            }
            count += !same;
        }
    }
    if (count == 0 || count > INT32_MAX) {
        uint8_t zero = 0;
        return count ? -1 : write_raw(out, &zero, 1);
    }
    if (write_uvarint(out, (uint32_t)count) < 0) {
        return -1;
    }
    /* The description has them in the order of their tags. */
    for (Py_ssize_t i = 0; i < plan->tagged_count; i++) {
        const Tagged *tagged = &plan->tagged[i];
        if (tagged->live && !is_default(plan, tagged->default_index, object, 0) &&
            write_tagged_field(out, tagged, *slot_of(object, tagged->field.offset)) < 0) {
            return -1;
        }
    }
    return write_unknown(out, plan, unknown);
}

int write_struct(Output *out, const Plan *plan, PyObject *object) {
    if (Py_TYPE(object) != plan->type) {
        return -1;
    }
    for (Py_ssize_t i = 0; i < plan->required_count; i++) {
        if (is_default(plan, plan->required[i], object, 0) != 1) {
            return -1;
        }
    }
    const Field *end = plan->fields + plan->field_count;
    for (const Field *field = plan->fields; field < end; field++) {
        PyObject *value = *slot_of(object, field->offset);
        if (value == NULL || (field->run_size && reserve(out, field->run_size) == NULL)) {
            return -1;
        }
        if (field->is_array || field->kind >= KIND_STRING) {
            if (write_variable(out, field, value) < 0) {
                return -1;
            }
        } else {
            if (put_fixed(out->data + out->size, field->kind, value) < 0) {
                return -1;
            }
            out->size += fixed_size(field->kind);
        }
    }
    return plan->flexible ? write_tags(out, plan, object) : 0;
}

static int copy_reference(uint8_t *target, const Reference *reference) {
    if (PyBytes_CheckExact(reference->object)) {
        memcpy(target, PyBytes_AS_STRING(reference->object), (size_t)reference->size);
        return 0;
    }
    Py_buffer buffer;
    if (PyObject_GetBuffer(reference->object, &buffer, PyBUF_SIMPLE) < 0) {
        return -1;
    }
    int is_same = buffer.len == reference->size;
    if (is_same && buffer.len > GIL_RELEASE_BYTES) {
        Py_BEGIN_ALLOW_THREADS
        memcpy(target, buffer.buf, (size_t)buffer.len);
        Py_END_ALLOW_THREADS
    } else if (is_same) {
        memcpy(target, buffer.buf, (size_t)buffer.len);
    }
    PyBuffer_Release(&buffer);
    if (!is_same) {
        PyErr_SetString(PyExc_BufferError, "the size of a buffer changed while it was written");
        return -1;
    }
    return 0;
}

PyObject *output_bytes(Output *out) {
    if (out->referred > PY_SSIZE_T_MAX - out->size) {
        return PyErr_NoMemory();
    }
    PyObject *result = PyBytes_FromStringAndSize(NULL, out->size + out->referred);
    if (result == NULL) {
        return NULL;
    }
    uint8_t *target = (uint8_t *)PyBytes_AS_STRING(result);
    Py_ssize_t at = 0;
    for (Py_ssize_t i = 0; i < out->reference_count; i++) {
        const Reference *reference = &out->references[i];
        memcpy(target, out->data + at, (size_t)(reference->at - at));
        target += reference->at - at;
        at = reference->at;
        if (copy_reference(target, reference) < 0) {
            Py_DECREF(result);
            return NULL;
        }
        target += reference->size;
    }
    memcpy(target, out->data + at, (size_t)(out->size - at));
    return result;
}

static int append_written(PyObject *parts, const Output *out, Py_ssize_t start, Py_ssize_t end) {
    if (start == end) {
        return 0;
    }
    PyObject *part = PyBytes_FromStringAndSize((const char *)out->data + start, end - start);
    if (part == NULL) {
        return -1;
    }
    int status = PyList_Append(parts, part);
    Py_DECREF(part);
    return status;
}

PyObject *output_parts(Output *out) {
    PyObject *parts = PyList_New(0);
    if (parts == NULL) {
        return NULL;
    }
    Py_ssize_t at = 0;
    for (Py_ssize_t i = 0; i < out->reference_count; i++) {
        const Reference *reference = &out->references[i];
        if (append_written(parts, out, at, reference->at) < 0 || PyList_Append(parts, reference->object) < 0) {
            Py_DECREF(parts);
            return NULL;
        }
        at = reference->at;
    }
    if (append_written(parts, out, at, out->size) < 0) {
        Py_DECREF(parts);
        return NULL;
    }
    return parts;
}
