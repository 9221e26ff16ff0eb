package main

import "github.com/stele-go/stele/saver/admin"

// maxLost is how many lost checkpoints, and values, people are shown.
const maxLost = 50

// printLost lists what cannot be read. more is how many values the lists leave out.
func printLost(p *printer, checkpoints []admin.LostCheckpoint, values []admin.LostValue, more int) {
	for i, l := range checkpoints {
		if i == maxLost {
			p.line("LOST    and %d more; --json lists them", len(checkpoints)-i)
			break
		}
		p.line("LOST    %s %s of thread %s%s", l.What, l.Checkpoint, printable(l.Thread), inNamespace(l.Namespace))
	}
	for i, l := range values {
		if i == maxLost {
			p.line("LOST    and %d more values; --json lists them", len(values)-i)
			break
		}
		task := ""
		if l.Task != "" {
			task = " written by task " + l.Task
		}
		p.line("LOST    channel %s%s of checkpoint %s of thread %s%s", printable(l.Channel), task, l.Checkpoint, printable(l.Thread), inNamespace(l.Namespace))
	}
	if more > 0 {
		p.line("LOST    and %d more values, which are not listed", more)
	}
}
