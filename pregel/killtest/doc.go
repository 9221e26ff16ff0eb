// Package killtest kills processes that run graphs, to test that they go on where they were:
// that nothing is lost, and nothing done twice.
//
// A program under test is a function that works in a directory and goes on from whatever is
// there. Main calls it in a child process, and Run starts such processes one after the other.
// Each kills itself (SIGKILL) at a point drawn by chance. The points are where Hooks of a graph
// are called, also for graphs inside: before and after a task, so also when its side effects have happened and nothing
// is stored of them, after each save, and around supersteps; and where the program calls Point.
// When the program comes to its end, Run calls Options.Check.
//
//	func life(ctx context.Context, dir string) error {
//		s, err := disk.Open(filepath.Join(dir, "state"), disk.Options{})
//		// … compile with graph.Options{Saver: s, Hooks: killtest.Hooks(pregel.Hooks{})}, run
//	}
//
//	func TestMain(m *testing.M) {
//		killtest.Main(life) // a child process ends here
//		os.Exit(m.Run())
//	}
//
//	func TestMailsGoOutOnce(t *testing.T) {
//		_, err := killtest.Run(t.Context(), killtest.Options{Kills: 30, Dir: t.TempDir(), Check: check})
//		if err != nil {
//			t.Fatal(err) // says how to repeat it
//		}
//	}
//
// A kill takes nothing from the kernel, so it tests the program, not the disk below it.
package killtest
