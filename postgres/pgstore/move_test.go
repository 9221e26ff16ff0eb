//go:build unix

package pgstore_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stele-go/stele/postgres"
	"github.com/stele-go/stele/store"

	"github.com/stele-go/stele/postgres/pgtest"
)

// TestMoveUnderWriters: what somebody puts, there or here, while the move's own statement is under way, is
// not lost. The writer's transaction is open when the move looks, so it does not see what is put.
func TestMoveUnderWriters(t *testing.T) {
	for name, c := range map[string]struct{ sql, here, there string }{
		"here":   {`UPDATE store SET value = '{"v":"new"}', updated_at = now() WHERE prefix = 'a' AND key = '1'`, "", "new"},
		"there":  {`INSERT INTO store (prefix, key, value) VALUES ('b', '1', '{"v":"new"}')`, "old", "new"},
		"gone":   {`DELETE FROM store WHERE prefix = 'a' AND key = '1'`, "", ""},
		"equal":  {`INSERT INTO store (prefix, key, value) VALUES ('b', '1', '{"v":"old"}')`, "", "old"},
		"nobody": {`SELECT 1`, "", "old"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, url := t.Context(), pgtest.Shared(t).Database(t)
			s := openStore(t, url, postgres.Options{}, store.Options{})
			a, b := store.Namespace{"a"}, store.Namespace{"b"}
			for i := range 3 {
				if err := s.Put(ctx, a, fmt.Sprint(i), map[string]any{"v": "old"}); err != nil {
					t.Fatal(err)
				}
			}
			writer, look := pgtest.Connect(t, url), pgtest.Connect(t, url)
			tx, err := writer.Begin(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := tx.Exec(ctx, c.sql); err != nil {
				t.Fatal(err)
			}
			var rep store.MoveReport
			moved := make(chan error, 1)
			go func() {
				var err error
				rep, err = s.Move(ctx, a, b, false)
				moved <- err
			}()
			for deadline := time.Now().Add(time.Minute); name != "nobody" && pgtest.Column(t, look, `SELECT count(*)::text FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()`)[0] == "0"; {
				if time.Now().After(deadline) {
					t.Fatal("the move does not wait for the writer")
				}
			}
			if err := tx.Commit(ctx); err != nil {
				t.Fatal(err)
			}
			if err := <-moved; err != nil {
				t.Fatal(err)
			}
			value := func(ns store.Namespace, key string) string {
				it, err := s.Get(ctx, ns, key)
				if err != nil {
					return ""
				}
				return fmt.Sprint(it.Value["v"])
			}
			if here, there := value(a, "1"), value(b, "1"); here != c.here || there != c.there {
				t.Errorf("here is %q, there %q; want %q, %q", here, there, c.here, c.there)
			}
			if value(b, "0") != "old" || value(b, "2") != "old" || (c.here != "") != (len(rep.Left) == 1) || rep.Moved != 3-len(rep.Left) && name != "gone" {
				t.Errorf("%+v", rep)
			}
		})
	}
}
