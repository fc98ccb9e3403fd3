/* Builds plans from the descriptions of kwire/accelerator/plans.py, and checks that the classes are laid out so that
   their slots can be read and set directly: that of a class with __slots__, without garbage collection. */
#include "plan.h"

#include <stddef.h>
#include <structmember.h>

Py_ssize_t find_slot(PyTypeObject *type, PyObject *name) {
    PyObject *member = PyObject_GetAttr((PyObject *)type, name);
    if (member == NULL) {
        return -1;
    }
    if (Py_TYPE(member) != &PyMemberDescr_Type) {
        PyErr_Format(PyExc_TypeError, "%s.%U is no slot", type->tp_name, name);
        Py_DECREF(member);
        return -1;
    }
    PyMemberDef *definition = ((PyMemberDescrObject *)member)->d_member;
    Py_ssize_t offset = definition->offset;
    int is_object = definition->type == T_OBJECT_EX;
    Py_DECREF(member);
    if (!is_object || offset < (Py_ssize_t)sizeof(PyObject) ||
        offset + (Py_ssize_t)sizeof(PyObject *) > type->tp_basicsize) {
        PyErr_Format(PyExc_TypeError, "%s.%U is no slot of an object", type->tp_name, name);
        return -1;
    }
    return offset;
}

int check_layout(PyTypeObject *type, Py_ssize_t slots) {
    Py_ssize_t size = (Py_ssize_t)sizeof(PyObject) + slots * (Py_ssize_t)sizeof(PyObject *);
    if (PyType_HasFeature(type, Py_TPFLAGS_HAVE_GC) || type->tp_itemsize != 0 || type->tp_dictoffset != 0 ||
        type->tp_weaklistoffset != 0 || type->tp_basicsize != size) {
        PyErr_Format(PyExc_TypeError, "%s is not laid out as %zd slots", type->tp_name, slots);
        return -1;
    }
    return 0;
}

static Py_ssize_t size_min_of(const Field *field) {
    if (field->is_array) {
        return field->flexible ? 1 : 4;
    }
    if (field->kind == KIND_STRUCT) {
        return field->nullable ? 1 : field->plan->size_min;
    }
    if (field->kind < KIND_STRING) {
        return fixed_size(field->kind);
    }
    return field->flexible ? 1 : field->kind == KIND_STRING ? 2 : 4;
}

/* (name, kind, is_array, nullable, flexible, tagged, struct description or None) */
static int fill_field(Field *field, PyTypeObject *type, PyObject *description) {
    PyObject *name, *sub;
    int kind, is_array, nullable, flexible, tagged;
    if (!PyTuple_Check(description) || !PyArg_ParseTuple(description, "UipppiO", &name, &kind, &is_array, &nullable,
                                                         &flexible, &tagged, &sub)) {
        return -1;
    }
    if (kind < 0 || kind >= KIND_COUNT || (kind == KIND_STRUCT) != (sub != Py_None)) {
        PyErr_Format(PyExc_ValueError, "kind %d of field %U", kind, name);
        return -1;
    }
    field->kind = (uint8_t)kind;
    field->is_array = (uint8_t)is_array;
    field->nullable = (uint8_t)nullable;
    field->flexible = (uint8_t)flexible;
    field->tagged = (uint8_t)tagged;
    field->offset = find_slot(type, name);
    if (field->offset < 0) {
        return -1;
    }
    if (kind == KIND_STRUCT) {
        field->plan = make_plan(sub);
        if (field->plan == NULL) {
            return -1;
        }
    }
    return 0;
}

/* (name, kind, value, present, required, nullable, struct description or None) */
static int fill_default(Plan *plan, Py_ssize_t index, PyObject *description) {
    PyObject *name, *value, *sub;
    int kind, present, required, nullable;
    Default *one = &plan->defaults[index];
    if (!PyTuple_Check(description) || !PyArg_ParseTuple(description, "UiOpppO", &name, &kind, &value, &present,
                                                         &required, &nullable, &sub)) {
        return -1;
    }
    if (kind < 0 || kind >= DEFAULT_COUNT || (kind == DEFAULT_STRUCT) != (sub != Py_None)) {
        PyErr_Format(PyExc_ValueError, "default %d of field %U", kind, name);
        return -1;
    }
    one->kind = (uint8_t)kind;
    one->present = (uint8_t)present;
    one->required = (uint8_t)required;
    one->nullable = (uint8_t)nullable;
    one->value = value;
    one->offset = find_slot(plan->type, name);
    if (one->offset < 0) {
        return -1;
    }
    if (kind == DEFAULT_STRUCT) {
        plan->default_plans[index] = make_plan(sub);
        if (plan->default_plans[index] == NULL) {
            return -1;
        }
    }
    return 0;
}

/* (tag, live, index of the default, field description or None) */
static int fill_tagged(Plan *plan, Tagged *tagged, PyObject *description) {
    PyObject *field;
    unsigned int tag;
    int live;
    Py_ssize_t index;
    if (!PyTuple_Check(description) || !PyArg_ParseTuple(description, "IpnO", &tag, &live, &index, &field)) {
        return -1;
    }
    if (index < 0 || index >= plan->default_count || live != (field != Py_None)) {
        PyErr_Format(PyExc_ValueError, "tagged field %u", tag);
        return -1;
    }
    tagged->tag = tag;
    tagged->live = (uint8_t)live;
    tagged->default_index = index;
    return live ? fill_field(&tagged->field, plan->type, field) : 0;
}

static void find_runs(Plan *plan) {
    Py_ssize_t run_size = 0;
    for (Py_ssize_t i = plan->field_count - 1; i >= 0; i--) {
        Field *field = &plan->fields[i];
        if (field->is_array || field->kind >= KIND_STRING) {
            run_size = 0;
            continue;
        }
        run_size += fixed_size(field->kind);
        field->run_size = run_size;
        if (i + 1 < plan->field_count) {
            plan->fields[i + 1].run_size = 0;
        }
    }
}

/* (class, flexible, schema tags, fields, defaults, tagged fields, name of the unknown ones or None) */
Plan *make_plan(PyObject *description) {
    PyObject *type, *fields, *defaults, *tagged, *unknown;
    int flexible;
    unsigned int schema_tags;
    if (!PyTuple_Check(description) ||
        !PyArg_ParseTuple(description, "O!pIO!O!O!O", &PyType_Type, &type, &flexible, &schema_tags, &PyTuple_Type,
                          &fields, &PyTuple_Type, &defaults, &PyTuple_Type, &tagged, &unknown)) {
        if (!PyErr_Occurred()) {
            PyErr_SetString(PyExc_ValueError, "a description is a tuple");
        }
        return NULL;
    }
    Plan *plan = PyMem_Calloc(1, sizeof(Plan));
    if (plan == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    plan->type = (PyTypeObject *)type;
    plan->flexible = (uint8_t)flexible;
    plan->schema_tags = schema_tags;
    plan->field_count = PyTuple_GET_SIZE(fields);
    plan->default_count = PyTuple_GET_SIZE(defaults);
    plan->tagged_count = PyTuple_GET_SIZE(tagged);
    plan->fields = PyMem_Calloc((size_t)plan->field_count + 1, sizeof(Field));
    plan->defaults = PyMem_Calloc((size_t)plan->default_count + 1, sizeof(Default));
    plan->default_plans = PyMem_Calloc((size_t)plan->default_count + 1, sizeof(Plan *));
    plan->tagged = PyMem_Calloc((size_t)plan->tagged_count + 1, sizeof(Tagged));
    plan->absent = PyMem_Calloc((size_t)plan->default_count + 1, sizeof(Py_ssize_t));
    plan->required = PyMem_Calloc((size_t)plan->default_count + 1, sizeof(Py_ssize_t));
    if (plan->absent == NULL || plan->required == NULL || plan->fields == NULL || plan->defaults == NULL || plan->default_plans == NULL || plan->tagged == NULL) {
        PyErr_NoMemory();
        goto failed;
    }
    for (Py_ssize_t i = 0; i < plan->field_count; i++) {
        if (fill_field(&plan->fields[i], plan->type, PyTuple_GET_ITEM(fields, i)) < 0) {
            goto failed;
        }
        plan->size_min += size_min_of(&plan->fields[i]);
    }
    find_runs(plan);
    for (Py_ssize_t i = 0; i < plan->default_count; i++) {
        if (fill_default(plan, i, PyTuple_GET_ITEM(defaults, i)) < 0) {
            goto failed;
        }
        if (!plan->defaults[i].present) {
            plan->absent[plan->absent_count++] = i;
        }
        if (plan->defaults[i].required) {
            plan->required[plan->required_count++] = i;
        }
    }
    for (Py_ssize_t i = 0; i < plan->tagged_count; i++) {
        if (fill_tagged(plan, &plan->tagged[i], PyTuple_GET_ITEM(tagged, i)) < 0) {
            goto failed;
        }
    }
    if (unknown != Py_None) {
        plan->unknown_offset = find_slot(plan->type, unknown);
        if (plan->unknown_offset < 0) {
            goto failed;
        }
    }
    plan->size_min += plan->flexible;
    if ((plan->flexible && plan->unknown_offset == 0) ||
        check_layout(plan->type, plan->default_count + (unknown != Py_None)) < 0) {
        if (!PyErr_Occurred()) {
            PyErr_Format(PyExc_ValueError, "%s has no slot for unknown tagged fields", plan->type->tp_name);
        }
        goto failed;
    }
    plan->slot_count = plan->default_count + (unknown != Py_None);
    plan->is_simple = plan->type->tp_alloc == PyType_GenericAlloc && plan->type->tp_free == PyObject_Free;
    return plan;

failed:
    free_plan(plan);
    return NULL;
}

void free_plan(Plan *plan) {
    if (plan == NULL) {
        return;
    }
    for (Py_ssize_t i = 0; plan->fields != NULL && i < plan->field_count; i++) {
        free_plan(plan->fields[i].plan);
    }
    for (Py_ssize_t i = 0; plan->default_plans != NULL && i < plan->default_count; i++) {
        free_plan(plan->default_plans[i]);
    }
    for (Py_ssize_t i = 0; plan->tagged != NULL && i < plan->tagged_count; i++) {
        free_plan(plan->tagged[i].field.plan);
    }
    PyMem_Free(plan->fields);
    PyMem_Free(plan->defaults);
    PyMem_Free(plan->default_plans);
    PyMem_Free(plan->tagged);
    PyMem_Free(plan->absent);
    PyMem_Free(plan->required);
    PyMem_Free(plan);
}
