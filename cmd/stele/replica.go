package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/engine/backup"
	"github.com/stele-go/stele/replica"
	"github.com/stele-go/stele/replica/bucket"
	"github.com/stele-go/stele/replica/s3"
	"github.com/stele-go/stele/saver/admin"
)

const (
	schemeS3  = "s3://"
	schemeDir = "file://"
)

func isBucket(address string) bool {
	return strings.HasPrefix(address, schemeS3) || strings.HasPrefix(address, schemeDir)
}

// openBucket opens the bucket of an address. It talks to no server.
func openBucket(ctx context.Context, address string) (bucket.Bucket, error) {
	if dir, ok := strings.CutPrefix(address, schemeDir); ok {
		return bucket.Dir(ctx, dir)
	}
	if !isBucket(address) {
		return nil, fmt.Errorf("%q is no bucket: use s3://NAME/PREFIX, or file://DIR for a directory", address)
	}
	return s3.Open(ctx, address)
}

// replicated gives a command that writes to a store the flag for the bucket of that store.
func (a *app) replicated(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().StringVar(&a.flags.replica, "replica", "", "bucket that has the log of the store, too, and gets what the command writes; see "+"stele replica --help")
	return cmd
}

func (a *app) replicaCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use: "replica", Short: "Look at what a bucket holds of a store: status, points, verify; or leave it: detach; or go back to it: rejoin",
		Long: `Look at what a bucket holds of a store. BUCKET is s3://NAME/PREFIX, with
?region=REGION&endpoint=URL&path_style=true if needed, or file://DIR for a directory on a
disk or a file server. Credentials are those that Amazon's tools use.

stele serve DIR --replica BUCKET writes to it, and stele restore BUCKET NEWDIR makes a store of
it. stele serve NEWDIR --replica BUCKET --follow serves reads beside it. The commands here change
nothing in the bucket.`,
		Args: cobra.NoArgs,
	}
	cmd.AddCommand(a.replicaStatusCmd(), a.replicaPointsCmd(), a.replicaVerifyCmd(), writing(a.replicaDetachCmd()), writing(a.replicaRejoinCmd()))
	return cmd
}

// replicaStatus is replica.Status for machines.
type replicaStatus struct {
	StoreID  string           `json:"store_id"`
	Mode     replica.Mode     `json:"mode"`
	Epoch    uint64           `json:"epoch"`
	Leader   string           `json:"leader"`
	Dir      string           `json:"dir"`
	Released bool             `json:"released"`
	Beat     uint64           `json:"beat"`
	TTL      float64          `json:"ttl_seconds"`
	End      replica.Position `json:"end"`
	Floor    replica.Position `json:"floor"`
	Points   int              `json:"points"`
}

func (a *app) replicaStatusCmd() *cobra.Command {
	return &cobra.Command{
		Use: "status BUCKET", Short: "Say who leads, how far the bucket has come, and from where a restore can begin",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			st, _, err := a.status(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			out := replicaStatus{fmt.Sprintf("%016x", st.Store), st.Mode, st.Epoch, st.Owner, st.Dir, st.Released, st.Beat, st.TTL.Seconds(), st.End,
				st.Floor, len(st.Points)}
			return a.print(out, func(p *printer) {
				lease := "its leader renews it; if the beat stands still for " + st.TTL.String() + ", another may take over"
				if st.Released {
					lease = "given back"
				}
				p.line("store     %s", out.StoreID)
				p.line("mode      %s", st.Mode)
				p.line("leader    epoch %d, %s, of the directory %s", st.Epoch, printable(st.Owner), printable(st.Dir))
				p.line("lease     beat %d: %s", st.Beat, lease)
				p.line("records   up to %d of %s (there may be newer ones)", st.End.LSN, stampMicros(st.End.Stamp))
				p.line("floor     record %d of %s", st.Floor.LSN, stampMicros(st.Floor.Stamp))
				if n := len(st.Points); n > 0 {
					p.line("points    %d, the newest of record %d of %s", n, st.Points[n-1].LSN, stampMicros(st.Points[n-1].Stamp))
				} else {
					p.line("points    none: the store is being seeded, and cannot be restored yet")
				}
			})
		},
	}
}

func (a *app) status(ctx context.Context, address string) (*replica.Status, bucket.Bucket, error) {
	b, err := openBucket(ctx, address)
	if err != nil {
		return nil, nil, err
	}
	st, err := replica.ReadStatus(ctx, replica.Options{Bucket: b})
	return st, b, err
}

func (a *app) replicaPointsCmd() *cobra.Command {
	return &cobra.Command{
		Use: "points BUCKET", Short: "List the points where a restore can begin, oldest first; it may end anywhere behind one",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			st, _, err := a.status(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			p := a.printer()
			var rows [][]any
			for _, ref := range st.Points {
				if p.json {
					if err := p.row(ref); err != nil {
						return err
					}
				}
				rows = append(rows, []any{uint64(ref.LSN), stampMicros(ref.Stamp), ref.Epoch})
			}
			if !p.json {
				p.table([]string{"record", "time (UTC)", "epoch"}, rows)
			}
			return p.err
		},
	}
}

// replicaVerification is replica.Verification for machines.
type replicaVerification struct {
	From    replica.Position `json:"from"`
	To      replica.Position `json:"to"`
	Chunks  int              `json:"chunks"`
	Records uint64           `json:"records"`
	Points  int              `json:"points"`
	Files   int              `json:"files"`
	Damage  []string         `json:"damage"`
}

func (a *app) replicaVerifyCmd() *cobra.Command {
	return &cobra.Command{
		Use: "verify BUCKET", Short: "Read all that a restore may read, and check it",
		Long: `Read every chunk and every point of a bucket, and check that the chunks follow one another
without a gap or a change, that the points lie in them, and that the files of the points are
there. What is within those files is checked when they are restored. A leader may go on
meanwhile. Exit code 0: nothing is damaged; 1: something is; 2: the check could not be made.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			v, err := a.verifyReplica(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			out := replicaVerification{v.From, v.To, v.Chunks, v.Records, v.Points, v.Files, []string{}}
			for _, d := range v.Damage {
				out.Damage, a.code = append(out.Damage, d.Error()), exitFound
			}
			return a.print(out, func(p *printer) {
				for _, d := range v.Damage {
					p.line("DAMAGE  %s", d)
				}
				verdict := "clean"
				if n := len(v.Damage); n > 0 {
					verdict = plural(n, "place") + " of damage"
				}
				p.line("%s: records %d to %d in %s, %s, %s", verdict, v.From.LSN+1, v.To.LSN, plural(v.Chunks, "chunk"), plural(v.Points, "point"), plural(v.Files, "file"))
			})
		},
	}
}

// verifyReplica counts damage of the chunks among the damage, too: it ends what can be restored.
func (a *app) verifyReplica(ctx context.Context, address string) (*replica.Verification, error) {
	st, b, err := a.status(ctx, address)
	if err != nil {
		return nil, err
	}
	access, err := a.flags.access()
	if err != nil {
		return nil, err
	}
	keys, chain, err := backup.LineageKeys(ctx, b, st.Store, access.Options.Keys)
	if err != nil {
		return nil, err
	}
	v, err := replica.Verify(ctx, replica.Options{Bucket: b, Store: st.Store, Keys: keys, ChainKey: chain})
	if v != nil && errors.Is(err, fault.ErrCorrupt) {
		v.Damage, err = append(v.Damage, err), nil
	}
	return v, err
}

func (a *app) replicaDetachCmd() *cobra.Command {
	return &cobra.Command{
		Use: "detach DIR", Short: "Make the store in DIR one without a bucket",
		Long: `Make the store in DIR, whose log is kept in a bucket, one of its own: it opens without the
bucket, and can never go on with it. What the bucket holds stays there. If it was restored, or
followed, and has not led since, it is held then: see stele release --help.`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: dirArg,
		RunE: func(_ *cobra.Command, args []string) error {
			access, err := a.flags.access()
			if err != nil {
				return err
			}
			if err := admin.DetachBucket(args[0], access); err != nil {
				return err
			}
			return a.print(map[string]string{"dir": args[0]}, func(p *printer) { p.line("%s is a store without a bucket", printable(args[0])) })
		},
	}
}

func (a *app) replicaRejoinCmd() *cobra.Command {
	return &cobra.Command{
		Use: "rejoin DIR BUCKET", Short: "Make a store that another one took over from one of the bucket again",
		Long: `Make the store in DIR what the bucket has, after another one took over from it. Records that DIR
has and the bucket lacks stay in DIR, in files diverged-RECORD.tail: keep them until somebody has
looked. The store then opens with stele serve DIR --replica BUCKET, to lead, or with --follow, too.`,
		Args: cobra.ExactArgs(2), ValidArgsFunction: dirArg,
		RunE: func(cmd *cobra.Command, args []string) error {
			access, err := a.flags.access()
			if err != nil {
				return err
			}
			b, err := openBucket(cmd.Context(), args[1])
			if err != nil {
				return err
			}
			rep, err := admin.RejoinBucket(cmd.Context(), b, args[0], access)
			if err != nil {
				return err
			}
			return a.print(rep, func(p *printer) {
				if rep.First > 0 {
					p.line("records from %d on were in %s alone, and are in diverged-*.tail there", rep.First, printable(args[0]))
				}
				p.line("%s has what the bucket has", printable(args[0]))
			})
		},
	}
}

// parseMoment reads what --at wants.
func parseMoment(s string) (m admin.Moment, err error) {
	if s == "" {
		return m, nil
	}
	if n, err := strconv.ParseUint(s, 10, 64); err == nil && n > 0 {
		m.LSN = base.LSN(n)
		return m, nil
	}
	for _, layout := range []string{time.RFC3339Nano, time.DateTime, "2006-01-02T15:04:05", "2006-01-02 15:04"} {
		if m.Time, err = time.Parse(layout, s); err == nil {
			return m, nil
		}
	}
	if i := strings.LastIndexByte(s, ':'); i > 0 && i+1 < len(s) {
		return admin.AtCheckpoint(s[:i], s[i+1:]), nil
	}
	return m, fmt.Errorf("--at wants a time such as 2026-02-03T14:05:00Z, or a time without a zone in UTC, or the number of a record, or THREAD:CHECKPOINT, not %q", s)
}

func stampMicros(t int64) string {
	if t == 0 {
		return "-"
	}
	return stamp(time.UnixMicro(t))
}

func stampOrDash(t time.Time) string { return stampMicros(t.UnixMicro()) }
