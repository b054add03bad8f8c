package fairlimit

// and is both traces in one, t first. Either may be nil; nil is both of none.
func (t *Trace) and(u *Trace) *Trace {
	if u == nil {
		return t
	}
	if t == nil {
		t = &Trace{}
	}
	return &Trace{
		Entered:      both1(t.Entered, u.Entered),
		Left:         both3(t.Left, u.Left),
		Granted:      both2(t.Granted, u.Granted),
		Reserved:     both2(t.Reserved, u.Reserved),
		Unreserved:   both2(t.Unreserved, u.Unreserved),
		Refused:      both2(t.Refused, u.Refused),
		Taken:        both3(t.Taken, u.Taken),
		Missed:       both2(t.Missed, u.Missed),
		GivenBack:    both2(t.GivenBack, u.GivenBack),
		Asked:        both4(t.Asked, u.Asked),
		Paused:       both1(t.Paused, u.Paused),
		Lost:         both0(t.Lost, u.Lost),
		QuotasDiffer: both1(t.QuotasDiffer, u.QuotasDiffer),
		FellBack:     both1(t.FellBack, u.FellBack),
	}
}

// These call f and then g, of as many parameters. Where one is nil, they are the
// other.

func both0(f, g func()) func() {
	if f == nil || g == nil {
		return either(f, g, f == nil)
	}
	return func() { f(); g() }
}

func both1[A any](f, g func(A)) func(A) {
	if f == nil || g == nil {
		return either(f, g, f == nil)
	}
	return func(a A) { f(a); g(a) }
}

func both2[A, B any](f, g func(A, B)) func(A, B) {
	if f == nil || g == nil {
		return either(f, g, f == nil)
	}
	return func(a A, b B) { f(a, b); g(a, b) }
}

func both3[A, B, C any](f, g func(A, B, C)) func(A, B, C) {
	if f == nil || g == nil {
		return either(f, g, f == nil)
	}
	return func(a A, b B, c C) { f(a, b, c); g(a, b, c) }
}

func both4[A, B, C, D any](f, g func(A, B, C, D)) func(A, B, C, D) {
	if f == nil || g == nil {
		return either(f, g, f == nil)
	}
	return func(a A, b B, c C, d D) { f(a, b, c, d); g(a, b, c, d) }
}

func either[F any](f, g F, second bool) F {
	if second {
		return g
	}
	return f
}
