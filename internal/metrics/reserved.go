package metrics

import (
	"slices"
	"time"
)

// reserved is the reservations whose slot lies ahead, in the order of their
// slots. Some whose slot has passed may still be there.
//
// Invariant: permits is the sum of those of all.
type reserved struct {
	all     []reservation
	permits int
}

type reservation struct {
	slot    time.Time
	permits int
}

func (r *reserved) add(permits int, slot time.Time) {
	at, _ := r.find(slot)
	r.all = slices.Insert(r.all, at, reservation{slot, permits})
	r.permits += permits
}

// remove drops one such reservation, unless its slot has passed already.
func (r *reserved) remove(permits int, slot time.Time) {
	for at, found := r.find(slot); found && at < len(r.all) && r.all[at].slot.Equal(slot); at++ {
		if r.all[at].permits == permits {
			r.cut(at, at+1)
			return
		}
	}
}

// drop drops those whose slot has come.
func (r *reserved) drop(now time.Time) {
	passed, _ := r.find(now.Add(1))
	r.cut(0, passed)
}

// find is where the first stands whose slot is not before t, and whether it is
// t.
func (r *reserved) find(t time.Time) (int, bool) {
	return slices.BinarySearchFunc(r.all, t, func(r reservation, t time.Time) int { return r.slot.Compare(t) })
}

func (r *reserved) cut(from, to int) {
	for _, one := range r.all[from:to] {
		r.permits -= one.permits
	}
	r.all = slices.Delete(r.all, from, to)
}
