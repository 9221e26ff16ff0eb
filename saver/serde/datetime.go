package serde

import (
	"fmt"
	"time"
)

// Python's datetime types. An aware datetime is a time.Time. It keeps the offset but not the
// name of the zone, and is truncated to microseconds when it is written, because Python has
// no smaller unit. A timedelta is a time.Duration, truncated in the same way. If Go's type
// cannot hold what was stored (an offset with fractions of a second, a timedelta of more than
// 292 years), decoding returns an *Ext.

// NaiveDateTime is a Python datetime without a time zone. It is not an instant.
type NaiveDateTime struct {
	Year        int
	Month       time.Month
	Day         int
	Hour        int
	Minute      int
	Second      int
	Microsecond int
}

// NaiveOf returns the date and time of t without its zone.
func NaiveOf(t time.Time) NaiveDateTime {
	y, m, d := t.Date()
	hh, mm, ss := t.Clock()
	return NaiveDateTime{Year: y, Month: m, Day: d, Hour: hh, Minute: mm, Second: ss, Microsecond: t.Nanosecond() / 1000}
}

// In is the instant with date and time d in loc.
func (d NaiveDateTime) In(loc *time.Location) time.Time {
	return time.Date(d.Year, d.Month, d.Day, d.Hour, d.Minute, d.Second, d.Microsecond*1000, loc)
}

// String is Python's isoformat.
func (d NaiveDateTime) String() string { return string(d.appendISO(nil)) }

func (d NaiveDateTime) appendISO(b []byte) []byte {
	b = fmt.Appendf(b, "%04d-%02d-%02dT%02d:%02d:%02d", d.Year, d.Month, d.Day, d.Hour, d.Minute, d.Second)
	if d.Microsecond != 0 {
		b = fmt.Appendf(b, ".%06d", d.Microsecond)
	}
	return b
}

// check refuses what Python's datetime would refuse to read.
func (d NaiveDateTime) check() error {
	if d.Year < 1 || d.Year > 9999 {
		return fmt.Errorf("year %d: %w", d.Year, ErrRange)
	}
	if d.Microsecond < 0 || d.Microsecond > 999_999 || NaiveOf(d.In(time.UTC)) != d {
		return fmt.Errorf("no such date and time, %s: %w", d, ErrRange)
	}
	return nil
}

// Date is Python's datetime.date.
type Date struct {
	Year  int
	Month time.Month
	Day   int
}

// String is YYYY-MM-DD.
func (d Date) String() string { return fmt.Sprintf("%04d-%02d-%02d", d.Year, d.Month, d.Day) }

func (d Date) check() error {
	return NaiveDateTime{Year: d.Year, Month: d.Month, Day: d.Day}.check()
}

// TimeOfDay is Python's datetime.time.
type TimeOfDay struct {
	Hour        int
	Minute      int
	Second      int
	Microsecond int
	// TZ is nil for a naive time, else FixedOffset, ZoneInfo or *Ext.
	TZ   any
	Fold int // 1 for the second of two equal readings when clocks go back
}

func (t TimeOfDay) check() error {
	in := func(v, most int) bool { return v >= 0 && v <= most }
	if in(t.Hour, 23) && in(t.Minute, 59) && in(t.Second, 59) && in(t.Microsecond, 999_999) && in(t.Fold, 1) {
		return nil
	}
	return fmt.Errorf("no such time of day, %02d:%02d:%02d.%06d fold %d: %w",
		t.Hour, t.Minute, t.Second, t.Microsecond, t.Fold, ErrRange)
}

// FixedOffset is Python's datetime.timezone: an offset from UTC and perhaps a
// name for it.
type FixedOffset struct {
	Offset time.Duration // whole microseconds, less than a day
	Name   string        // empty: none was given
}

// checkOffset refuses what Python's datetime.timezone refuses.
func checkOffset(d time.Duration) error {
	if d <= -24*time.Hour || d >= 24*time.Hour {
		return fmt.Errorf("UTC offset %s: %w", d, ErrRange)
	}
	return nil
}

// appendISOTime writes t as Python's isoformat does.
func appendISOTime(b []byte, t time.Time) ([]byte, error) {
	d := NaiveOf(t)
	if d.Year < 1 || d.Year > 9999 {
		return b, fmt.Errorf("year %d: %w", d.Year, ErrRange)
	}
	_, off := t.Zone()
	if err := checkOffset(time.Duration(off) * time.Second); err != nil {
		return b, err
	}
	b = d.appendISO(b)
	sign := byte('+')
	if off < 0 {
		sign, off = '-', -off
	}
	b = append(b, sign)
	b = fmt.Appendf(b, "%02d:%02d", off/3600, off/60%60)
	if off%60 != 0 {
		b = fmt.Appendf(b, ":%02d", off%60)
	}
	return b, nil
}

// parseISO reads what appendISO and appendISOTime write, and nothing else: the
// value is a time.Time or a NaiveDateTime that is written back as s.
func parseISO(s string) (any, bool) {
	const date, clock = len("2006-01-02T"), len("2006-01-02T15:04:05")
	if len(s) < clock || s[4] != '-' || s[7] != '-' || s[10] != 'T' || s[13] != ':' || s[16] != ':' {
		return nil, false
	}
	var ok = true
	num := func(from, to int) int {
		n := 0
		for _, c := range []byte(s[from:to]) {
			if c < '0' || c > '9' {
				ok = false
			}
			n = n*10 + int(c-'0')
		}
		return n
	}
	d := NaiveDateTime{
		Year: num(0, 4), Month: time.Month(num(5, 7)), Day: num(8, 10),
		Hour: num(date, date+2), Minute: num(14, 16), Second: num(17, 19),
	}
	at := clock
	if len(s) >= at+7 && s[at] == '.' {
		d.Microsecond = num(at+1, at+7)
		at += 7
	}
	if !ok || d.check() != nil {
		return nil, false
	}
	if at == len(s) {
		return d, d.String() == s
	}
	rest := s[at:]
	if (len(rest) != 6 && len(rest) != 9) || rest[3] != ':' || (len(rest) == 9 && rest[6] != ':') {
		return nil, false
	}
	off := num(at+1, at+3)*3600 + num(at+4, at+6)*60
	if len(rest) == 9 {
		off += num(at+7, at+9)
	}
	if rest[0] == '-' {
		off = -off
	}
	loc := time.UTC
	if off != 0 {
		loc = time.FixedZone("", off)
	}
	t := d.In(loc)
	back, err := appendISOTime(nil, t)
	return t, ok && err == nil && string(back) == s
}

// splitDelta gives days, seconds and microseconds of a timedelta, with seconds
// and microseconds never negative, as Python normalises them.
func splitDelta(d time.Duration) (days, secs, micros int64) {
	us := int64(d / time.Microsecond)
	const day = 24 * 60 * 60 * 1_000_000
	days = us / day
	us -= days * day
	if us < 0 {
		days--
		us += day
	}
	return days, us / 1_000_000, us % 1_000_000
}

// joinDelta is the inverse. ok is false if the parts are not normalised or do not fit.
func joinDelta(days, secs, micros int64) (d time.Duration, ok bool) {
	const most = int64(1<<63-1) / int64(24*time.Hour) // days
	if days <= -most || days >= most || secs < 0 || secs >= 86_400 || micros < 0 || micros > 999_999 {
		return 0, false
	}
	return time.Duration(days)*24*time.Hour + time.Duration(secs)*time.Second + time.Duration(micros)*time.Microsecond, true
}
