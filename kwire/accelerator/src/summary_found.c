/* Finds in the bytes of a message what its one-line summary is made of (kwire/capture/columnar/summary_reader.py has the
   rules). Bytes that are unusual, as tagged fields, are left to the Python code. */
#include "summary.h"

#define HEADER_SIZE 61
#define PREFIX_SIZE 12

static int add_key(Found *found, const uint8_t *data, Py_ssize_t size) {
    if (size > KEY_MAX - found->key_size) {
        return -1;
    }
    memcpy(found->key + found->key_size, data, (size_t)size);
    found->key_size += size;
    return 0;
}

/* Record batches of the usual kind, as kwire.payload.total_records counts them. */
static int count_records(Found *found, const uint8_t *data, Py_ssize_t size) {
    Py_ssize_t at = 0;
    int codec = -1;
    while (size - at >= HEADER_SIZE) {
        const uint8_t *p = data + at;
        int64_t base = (int64_t)load_u64(p);
        int32_t length = (int32_t)load_u32(p + 8), delta = (int32_t)load_u32(p + 23), count = (int32_t)load_u32(p + 57);
        int label = p[22] & 7;
        if (p[16] != 2 || length < HEADER_SIZE - PREFIX_SIZE || length > size - at - PREFIX_SIZE || delta < 0 ||
            count < 0 || base > INT64_MAX - delta || (codec >= 0 && codec != label)) {
            return -1;
        }
        at += PREFIX_SIZE + length;
        codec = label;
        found->record_count += count;
    }
    if (at != size || (codec > 0 && found->codec > 0 && found->codec != codec)) {
        return -1;
    }
    found->codec = codec > 0 ? codec : found->codec;
    found->record_bytes += size;
    return 0;
}

static int add_range(Found *found, int deliveries) {
    if (found->range_count++ >= RANGES_SHOWN) {
        return 0;
    }
    char *place = found->ranges + found->ranges_size;
    size_t left = (size_t)(TEXT_MAX - found->ranges_size);
    const char *before = found->range_count > 1 ? ", " : "acquired ";
    found->ranges_size += deliveries > 1 ? snprintf(place, left, "%s%lld-%lld x%d", before, (long long)found->first,
                                                    (long long)found->last, deliveries)
                                         : snprintf(place, left, "%s%lld-%lld", before, (long long)found->first,
                                                    (long long)found->last);
    return 0;
}

static int add_acknowledged(Found *found, int8_t kind, int64_t count) {
    int index = 0;
    while (index < found->kind_count && found->kinds[index] != kind) {
        index++;
    }
    if (index == found->kind_count) {
        if (index == KINDS_MAX) {
            return -1;
        }
        found->kinds[index] = kind;
        found->kind_counts[index] = 0;
        found->kind_count++;
    }
    found->kind_counts[index] += count;
    return 0;
}

/* A single type is that of the whole range; else each offset has its own. */
static int add_acknowledgements(Found *found, const uint8_t *types, Py_ssize_t count) {
    /* Far from overflow: sums of such ranges stay in 64 bits, as a message has fewer than 2^31 of them. */
    if (count == 1) {
        if (found->first < 0 || found->last < found->first || found->last - found->first >= INT32_MAX) {
            return -1;
        }
        return add_acknowledged(found, (int8_t)types[0], found->last - found->first + 1);
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        if (add_acknowledged(found, (int8_t)types[i], 1) < 0) {
            return -1;
        }
    }
    return 0;
}

static void take_number(Found *found, int role, const uint8_t *p) {
    switch (role) {
    case ROLE_RANGE_FIRST:
    case ROLE_ACK_FIRST:
        found->first = (int64_t)load_u64(p);
        break;
    case ROLE_RANGE_LAST:
    case ROLE_ACK_LAST:
        found->last = (int64_t)load_u64(p);
        break;
    case ROLE_EPOCH:
        found->epoch = (int32_t)load_u32(p);
        found->has_epoch = 1;
        break;
    case ROLE_WAIT:
        found->wait = (int32_t)load_u32(p);
        break;
    default:
        break;
    }
}

static int find_in_fixed(Cursor *cursor, Found *found, const SummaryField *field) {
    Py_ssize_t size = fixed_size(field->kind);
    const uint8_t *p = cursor->data + cursor->at;
    if (cursor->end - cursor->at < size) {
        return -1;
    }
    cursor->at += size;
    if (field->role == ROLE_KEY) {
        return add_key(found, p, size);
    }
    if (field->role == ROLE_RANGE_COUNT) {
        return add_range(found, (int16_t)load_u16(p));
    }
    take_number(found, field->role, p);
    return 0;
}

/* A string, bytes or records. */
static int find_in_sized(Cursor *cursor, Found *found, const SummaryField *field, int is_nullable) {
    Py_ssize_t begin = cursor->at;
    Py_ssize_t size = read_length(cursor, field->flexible, field->kind == KIND_STRING);
    if (size < -1 || (size < 0 && !is_nullable) || cursor->at > cursor->end || size > cursor->end - cursor->at) {
        return -1;
    }
    size = size < 0 ? 0 : size;
    const uint8_t *data = cursor->data + cursor->at;
    cursor->at += size;
    if (field->role == ROLE_KEY) {
        return add_key(found, cursor->data + begin, cursor->at - begin);
    }
    return field->role == ROLE_RECORDS && size > 0 ? count_records(found, data, size) : 0;
}

static int find_in_array(Cursor *cursor, Found *found, const SummaryField *field) {
    Py_ssize_t begin = cursor->at;
    Py_ssize_t count = read_length(cursor, field->flexible, 0);
    /* Each element has a byte at least. */
    if (count < -1 || (count < 0 && !field->nullable) || cursor->at > cursor->end || count > cursor->end - cursor->at) {
        return -1;
    }
    if (field->role == ROLE_KEY && add_key(found, cursor->data + begin, cursor->at - begin) < 0) {
        return -1;
    }
    count = count < 0 ? 0 : count;
    if (field->kind < KIND_STRING) {
        Py_ssize_t size = fixed_size(field->kind);
        const uint8_t *data = cursor->data + cursor->at;
        if (count > (cursor->end - cursor->at) / size) {
            return -1;
        }
        cursor->at += count * size;
        return field->role == ROLE_KEY         ? add_key(found, data, count * size)
               : field->role == ROLE_ACK_TYPES ? add_acknowledgements(found, data, count)
                                               : 0;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        int status = field->kind == KIND_STRUCT ? find_in_struct(cursor, found, field->inner)
                                                : find_in_sized(cursor, found, field, 0);
        if (status < 0) {
            return -1;
        }
    }
    return 0;
}

static int find_in_nested(Cursor *cursor, Found *found, const SummaryField *field) {
    if (field->nullable) {
        const uint8_t *marker = cursor->data + cursor->at;
        if (cursor->at >= cursor->end || (*marker != 1 && *marker != 255)) {
            return -1;
        }
        cursor->at++;
        if (field->role == ROLE_KEY && add_key(found, marker, 1) < 0) {
            return -1;
        }
        if (*marker == 255) {
            return 0;
        }
    }
    return find_in_struct(cursor, found, field->inner);
}

int find_in_struct(Cursor *cursor, Found *found, const SummaryStruct *part) {
    for (Py_ssize_t i = 0; i < part->count; i++) {
        const SummaryField *field = &part->fields[i];
        if (cursor->end - cursor->at < field->skipped) {
            return -1;
        }
        cursor->at += field->skipped;
        int status = field->is_array              ? find_in_array(cursor, found, field)
                     : field->kind == KIND_STRUCT ? find_in_nested(cursor, found, field)
                     : field->kind < KIND_STRING  ? find_in_fixed(cursor, found, field)
                                                  : find_in_sized(cursor, found, field, field->nullable);
        if (status < 0) {
            return -1;
        }
    }
    if (cursor->end - cursor->at < part->skipped) {
        return -1;
    }
    cursor->at += part->skipped;
    return part->flexible && (cursor->at >= cursor->end || cursor->data[cursor->at++] != 0) ? -1 : 0;
}
