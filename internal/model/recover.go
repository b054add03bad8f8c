package model

// Recover makes up for permits that the state lacks and a caller was told of,
// because the state is an older one. All count at the newest slot: the safe
// side. Others may have granted them under other windows, so the pace tells
// nothing from now on, and rows become cells.
func (q *Queue) Recover(missing int, newest int64) {
	tail := max(q.now, q.tail())
	for _, l := range q.logs {
		if l.interval > 0 {
			l.open(q.now, tail)
			l.interval = 0
		}
		if newest+l.Length > q.now {
			l.add(q.now, max(newest, l.last()), missing)
		}
	}
	q.compact(max(tail, newest))
	q.write()
}

// Lose takes everything up to a slot as full, because the state is gone and
// nobody knows what it held.
func (q *Queue) Lose(newest int64) { q.lost = max(q.lost, newest) }
