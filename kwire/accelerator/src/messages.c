/* The type MessageCodec: reads and writes one version of a message by its plan, which it makes on first use. */
#include "plan.h"

typedef struct {
    PyObject_HEAD
    PyObject *describe;    /* Called once, for the description; NULL afterwards. */
    PyObject *description; /* Owns all that the plan refers to. */
    PyObject *pure_read;
    PyObject *pure_write;
    Plan *plan;
    int is_failed; /* There is no plan: an exception of `describe`, or a class of another layout. */
} MessageCodec;

static int codec_traverse(MessageCodec *self, visitproc visit, void *arg) {
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(self->describe);
    Py_VISIT(self->description);
    Py_VISIT(self->pure_read);
    Py_VISIT(self->pure_write);
    return 0;
}

static int codec_clear(MessageCodec *self) {
    free_plan(self->plan);
    self->plan = NULL;
    self->is_failed = 1;
    Py_CLEAR(self->describe);
    Py_CLEAR(self->description);
    Py_CLEAR(self->pure_read);
    Py_CLEAR(self->pure_write);
    return 0;
}

static void codec_dealloc(MessageCodec *self) {
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    codec_clear(self);
    type->tp_free((PyObject *)self);
    Py_DECREF(type);
}

static PyObject *codec_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"describe", "pure_read", "pure_write", NULL};
    PyObject *describe, *pure_read, *pure_write;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OOO:MessageCodec", names, &describe, &pure_read,
                                     &pure_write)) {
        return NULL;
    }
    MessageCodec *self = (MessageCodec *)type->tp_alloc(type, 0);
    if (self != NULL) {
        self->describe = Py_NewRef(describe);
        self->pure_read = Py_NewRef(pure_read);
        self->pure_write = Py_NewRef(pure_write);
    }
    return (PyObject *)self;
}

/* Makes the plan. A class that another version of msgspec lays out otherwise has none: a warning, and the pure code. */
static int build_plan(MessageCodec *self) {
    if (self->is_failed) {
        return -1;
    }
    PyObject *description = PyObject_CallNoArgs(self->describe);
    if (description == NULL) {
        return -1;
    }
    if (self->plan != NULL) { /* Another thread was faster. */
        Py_DECREF(description);
        return 0;
    }
    self->plan = make_plan(description);
    if (self->plan != NULL) {
        self->description = description;
        return 0;
    }
    Py_DECREF(description);
    if (PyErr_ExceptionMatches(PyExc_TypeError)) {
        PyObject *type, *value, *traceback;
        PyErr_Fetch(&type, &value, &traceback);
        self->is_failed = 1;
        PyErr_WarnFormat(PyExc_RuntimeWarning, 1, "kwire: a message is read and written by Python code: %S", value);
        Py_XDECREF(type);
        Py_XDECREF(value);
        Py_XDECREF(traceback);
    }
    return -1;
}

/* NULL with an exception, or without one when the pure code must do it. */
static inline const Plan *plan_of(MessageCodec *self) {
    if (self->plan == NULL) {
        build_plan(self);
    }
    return self->plan;
}

static PyObject *codec_read(MessageCodec *self, PyObject *const *args, Py_ssize_t count) {
    if (count != 2) {
        PyErr_Format(PyExc_TypeError, "read takes data and an offset, not %zd arguments", count);
        return NULL;
    }
    const Plan *plan = plan_of(self);
    if (plan == NULL) {
        return PyErr_Occurred() ? NULL : PyObject_Vectorcall(self->pure_read, args, 2, NULL);
    }
    if (!PyBytes_CheckExact(args[0])) {
        PyErr_Format(PyExc_TypeError, "the data are bytes, not %.200s", Py_TYPE(args[0])->tp_name);
        return NULL;
    }
    Py_ssize_t at = PyLong_AsSsize_t(args[1]);
    if (at == -1 && PyErr_Occurred()) {
        return NULL;
    }
    Cursor cursor = {(const uint8_t *)PyBytes_AS_STRING(args[0]), at, PyBytes_GET_SIZE(args[0]), args[0], NULL};
    if (at < 0 || at > cursor.end) {
        PyErr_SetNone(fast_path_error);
        return NULL;
    }
    /* Nothing that is read can be garbage before it is returned. */
    int was_enabled = PyGC_Disable();
    PyObject *message = read_struct(&cursor, plan);
    if (was_enabled) {
        PyGC_Enable();
    }
    Py_XDECREF(cursor.view);
    if (message == NULL) {
        if (!PyErr_Occurred()) {
            PyErr_SetNone(fast_path_error);
        }
        return NULL;
    }
    PyObject *end = PyLong_FromSsize_t(cursor.at);
    PyObject *result = end == NULL ? NULL : PyTuple_New(2);
    if (result == NULL) {
        Py_DECREF(message);
        Py_XDECREF(end);
        return NULL;
    }
    PyTuple_SET_ITEM(result, 0, message);
    PyTuple_SET_ITEM(result, 1, end);
    return result;
}

/* 0 and an open output; -1 with a closed one, with an exception unless the pure code must write. */
static int write_message(MessageCodec *self, PyObject *message, Output *out) {
    const Plan *plan = plan_of(self);
    if (plan == NULL) {
        return -1;
    }
    open_output(out);
    if (write_struct(out, plan, message) == 0) {
        return 0;
    }
    close_output(out);
    if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_MemoryError)) {
        PyErr_Clear();
    }
    return -1;
}

static PyObject *codec_write(MessageCodec *self, PyObject *message) {
    Output out;
    if (write_message(self, message, &out) < 0) {
        return PyErr_Occurred() ? NULL : PyObject_CallOneArg(self->pure_write, message);
    }
    PyObject *parts = output_parts(&out);
    close_output(&out);
    return parts;
}

static PyObject *codec_encode(MessageCodec *self, PyObject *message) {
    Output out;
    if (write_message(self, message, &out) == 0) {
        PyObject *data = output_bytes(&out);
        close_output(&out);
        return data;
    }
    if (PyErr_Occurred()) {
        return NULL;
    }
    PyObject *parts = PyObject_CallOneArg(self->pure_write, message);
    if (parts == NULL) {
        return NULL;
    }
    PyObject *empty = PyBytes_FromStringAndSize("", 0);
    PyObject *data = empty == NULL ? NULL : PyObject_CallMethod(empty, "join", "O", parts);
    Py_XDECREF(empty);
    Py_DECREF(parts);
    return data;
}

static PyMethodDef codec_methods[] = {
    {"read", (PyCFunction)(void (*)(void))codec_read, METH_FASTCALL,
     "read(data: bytes, at: int) -> tuple[message, end]. Raises FastPathError, or another of FAILURES."},
    {"write", (PyCFunction)codec_write, METH_O, "write(message) -> parts to be joined. Raises as the pure code does."},
    {"encode", (PyCFunction)codec_encode, METH_O, "encode(message) -> bytes. Raises as the pure code does."},
    {NULL, NULL, 0, NULL},
};

static PyObject *codec_is_planned(MessageCodec *self, void *closure) {
    (void)closure;
    const Plan *plan = plan_of(self);
    return plan == NULL && PyErr_Occurred() ? NULL : PyBool_FromLong(plan != NULL);
}

static PyGetSetDef codec_members[] = {
    {"is_planned", (getter)codec_is_planned, NULL, "Whether there is a plan; without one the Python code works.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot codec_slots[] = {
    {Py_tp_doc, "Reads and writes one version of a message."},
    {Py_tp_new, codec_new},
    {Py_tp_dealloc, codec_dealloc},
    {Py_tp_traverse, codec_traverse},
    {Py_tp_clear, codec_clear},
    {Py_tp_methods, codec_methods},
    {Py_tp_getset, codec_members},
    {0, NULL},
};

static PyType_Spec codec_spec = {
    .name = "kwire.accelerator.native.MessageCodec",
    .basicsize = sizeof(MessageCodec),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = codec_slots,
};

int add_messages(PyObject *module) {
    return add_type(module, &codec_spec);
}
