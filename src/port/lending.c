#include "port/lending.h"

#include <assert.h>
#include <string.h>

void leat_lending_open(struct leat_lending *l)
{
    memset(l, 0, sizeof *l);
    for (uint32_t i = 0; i < LEAT_LENDING_SLOTS; i++)
        l->free[l->n_free++] = LEAT_LENDING_SLOTS - 1 - i;
}

uint32_t leat_lending_publish(struct leat_lending *l)
{
    if (!l->n_free)
        return LEAT_NO_SLOT;
    const uint32_t slot = l->free[--l->n_free];
    l->kept[slot] = true;
    return slot;
}

void leat_lending_lend(struct leat_lending *l, struct leat_loan *loan, uint32_t slot)
{
    assert(slot < LEAT_LENDING_SLOTS && (l->kept[slot] || l->holders[slot]) && !leat_loan_has(loan, slot));
    loan->slots[slot / 64] |= UINT64_C(1) << slot % 64;
    loan->n++;
    l->holders[slot]++;
}

static bool free_if_unused(struct leat_lending *l, uint32_t slot)
{
    if (l->kept[slot] || l->holders[slot])
        return false;
    l->free[l->n_free++] = slot;
    return true;
}

bool leat_lending_take_back(struct leat_lending *l, struct leat_loan *loan, uint32_t slot, bool *freed)
{
    *freed = false;
    if (!leat_loan_has(loan, slot))
        return false;
    loan->slots[slot / 64] &= ~(UINT64_C(1) << slot % 64);
    loan->n--;
    l->holders[slot]--;
    *freed = free_if_unused(l, slot);
    return true;
}

bool leat_lending_drop(struct leat_lending *l, uint32_t slot)
{
    if (slot >= LEAT_LENDING_SLOTS || !l->kept[slot])
        return false;
    l->kept[slot] = false;
    return free_if_unused(l, slot);
}

uint32_t leat_loan_any(const struct leat_loan *loan)
{
    for (uint32_t i = 0; i < LEAT_LENDING_SLOTS / 64; i++)
        if (loan->slots[i])
            return i * 64 + (uint32_t)__builtin_ctzll(loan->slots[i]);
    return LEAT_NO_SLOT;
}
