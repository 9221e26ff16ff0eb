package runs_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stele-go/stele/runs"
)

// field is a field of a cron expression: the text, and what it names.
type field struct {
	text  string
	names map[int]bool // nil names all
}

func (f field) has(n int) bool { return f.names == nil || f.names[n] }

// randomField is a field for numbers from low to high.
func randomField(r *rand.Rand, low, high int) field {
	n := func() int { return low + r.IntN(high-low+1) }
	f := field{names: map[int]bool{}}
	switch r.IntN(5) {
	case 0:
		return field{text: "*"}
	case 1: // a list
		var all []string
		for range 1 + r.IntN(3) {
			k := n()
			f.names[k] = true
			all = append(all, strconv.Itoa(k))
		}
		f.text = strings.Join(all, ",")
	case 2: // a range with steps
		ends := []int{n(), n()}
		slices.Sort(ends)
		step := 1 + r.IntN(7)
		for k := ends[0]; k <= ends[1]; k += step {
			f.names[k] = true
		}
		f.text = fmt.Sprintf("%d-%d/%d", ends[0], ends[1], step)
	default:
		k := n()
		f.names[k] = true
		f.text = strconv.Itoa(k)
	}
	return f
}

// TestNextTimeByBruteForce compares NextTime with a look at each minute, around the changes of the clocks
// of zones with odd ones. STELE_SEED repeats the choices.
func TestNextTimeByBruteForce(t *testing.T) {
	seed := environment("STELE_SEED", int(time.Now().UnixNano()%1e9))
	t.Logf("STELE_SEED=%d", seed)
	r := rand.New(rand.NewPCG(uint64(seed), 0))
	changes := map[string][]string{ // days of changes
		"Europe/Berlin":       {"2026-03-29", "2026-10-25"},
		"America/New_York":    {"2026-03-08", "2026-11-01"},
		"Australia/Lord_Howe": {"2026-04-05", "2026-10-04"}, // by half an hour
		"America/St_Johns":    {"2026-03-08", "2026-11-01"},
		"Africa/Cairo":        {"2026-04-24", "2026-10-30"}, // at midnight
		"America/Havana":      {"2026-03-08", "2026-11-01"}, // at midnight
		"Asia/Kolkata":        {"2026-03-29"},               // never
		"Pacific/Apia":        {"2011-12-30", "2011-09-24"}, // a day that there was not
	}
	zones := []string{}
	for zone := range changes {
		zones = append(zones, zone)
	}
	slices.Sort(zones)
	for range 400 {
		zone := zones[r.IntN(len(zones))]
		loc := must(time.LoadLocation(zone))
		days := changes[zone]
		day := must(time.ParseInLocation(time.DateOnly, days[r.IntN(len(days))], loc))
		minute, hour := randomField(r, 0, 59), randomField(r, 0, 23)
		if r.IntN(2) == 0 { // near the change
			hour = randomField(r, 0, 4)
		}
		weekday := field{text: "*"}
		if r.IntN(3) == 0 {
			weekday = randomField(r, 0, 6)
		}
		expression := fmt.Sprintf("CRON_TZ=%s %s %s * * %s", zone, minute.text, hour.text, weekday.text)
		now := day.Add(time.Duration(r.IntN(48*60)-24*60) * time.Minute)
		got, err := runs.NextTime(expression, now)
		if err != nil {
			t.Fatalf("%s: %v", expression, err)
		}
		named := func(wall time.Time) bool {
			return minute.has(wall.Minute()) && hour.has(wall.Hour()) && weekday.has(int(wall.Weekday()))
		}
		// wall is what the clocks show, as a time of UTC: those can be compared.
		wall := func(at time.Time) time.Time {
			_, offset := at.In(loc).Zone()
			return at.UTC().Add(time.Duration(offset) * time.Second)
		}
		latest := time.Time{} // that the clocks have shown
		want := time.Time{}
		for at := now.Add(-26 * time.Hour).Truncate(time.Minute); want.IsZero() && at.Before(now.Add(9*24*time.Hour)); at = at.Add(time.Minute) {
			shown := wall(at)
			due := false
			for w := latest.Add(time.Minute); !latest.IsZero() && w.Before(shown); w = w.Add(time.Minute) {
				due = due || named(w) // skipped
			}
			if hour.names == nil { // it goes by the time that passes
				due = named(shown)
			} else if shown.After(latest) {
				due = due || named(shown)
			}
			if shown.After(latest) {
				latest = shown
			}
			if due && at.After(now) {
				want = at
			}
		}
		if !want.IsZero() && !got.Equal(want) {
			t.Errorf("%s behind %s: %s, want %s", expression, now, got.In(loc), want.In(loc))
		}
	}
}
