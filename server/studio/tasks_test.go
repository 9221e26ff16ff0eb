package studio

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// A task tells what its node was called with, what it wrote, how long it took and how often it was
// tried, where the server tells that; elsewhere the page says that it does not.
func TestTasks(t *testing.T) {
	onEach(t, func(t *testing.T, b backend, base string) {
		stele := strings.HasSuffix(t.Name(), "/stele")
		p := open(t, base)
		task := "invite"
		if stele {
			task = "unsure"
		}
		p.begin(task)
		if stele {
			p.see("the end of the run", ended)
		} else {
			p.says("2 questions wait")
		}
		// What the run began with is the task of the checkpoint before the newest.
		p.do(chromedp.Click(chromedp.CSS(`.history .row:nth-child(2)`)))
		first := `document.querySelector(".task")`
		p.see("its task", `!document.querySelector(".questions") && `+first+`?.querySelector("summary b").innerText === `+quote(task))
		p.do(js(first + `.open = true`))
		if !stele {
			p.see("what is not told", first+`.innerText.includes("This server does not tell what the task was called with, its duration or its retries.")`)
			return
		}
		p.see("how long it took, and how often it was tried", `/^unsure ended \d+(\.\d)? (m?s|min), 3 attempts$/.test(`+first+`.querySelector("summary").innerText.replace(/\s+/g, " ").trim())`)
		p.see("that its node was called again", `/its node was called 3 times, in \d/.test(`+first+`.innerText)`)
		p.see("what it wrote", first+`.innerText.includes("dish") && `+first+`.innerText.includes("soup after all")`)
		p.do(js(first + `.querySelector(".leaf button").click()`))
		p.see("what it was called with", `[...`+first+`.querySelectorAll(".branch")].find(e => e.innerText.startsWith("input"))?.innerText.includes("task unsure")`)
		// An edit is of no run.
		p.do(chromedp.Click(chromedp.CSS(`.history .row:nth-child(3)`)))
		p.see("the first checkpoint", `document.querySelector(".task summary b")?.innerText === "start"`)
	})
}

// What a task took is known after it ended in one run and the thread went on in another.
func TestTasksOfEarlierRuns(t *testing.T) {
	onEach(t, func(t *testing.T, b backend, base string) {
		if !strings.HasSuffix(t.Name(), "/stele") {
			return // it does not tell; see TestTasks
		}
		p := open(t, base)
		thread := p.begin("invite")
		p.says("2 questions wait")
		var at struct {
			Tasks []struct {
				Name       string
				Interrupts []struct{ ID string }
			}
		}
		b.call(t, "GET", "/threads/"+thread+"/state", nil, &at)
		if len(at.Tasks) != 2 {
			t.Fatalf("the thread has %+v", at)
		}
		for _, task := range at.Tasks { // a run for each answer
			answer := any("no")
			if task.Name == "ann" {
				answer = map[string]any{"comes": true, "with": 3}
			}
			resume := map[string]any{task.Interrupts[0].ID: answer}
			b.call(t, "POST", "/threads/"+thread+"/runs/wait", map[string]any{"assistant_id": "party", "command": map[string]any{"resume": resume}}, nil)
		}
		p.see("the end", `document.querySelectorAll(".history .row").length === 5 && !document.querySelector(".questions")`)
		p.do(chromedp.Click(chromedp.CSS(`.history .row:nth-child(3)`)))
		p.see("both tasks", `document.querySelectorAll(".task").length === 2 && [...document.querySelectorAll(".task summary")].every(e => / ended /.test(e.innerText))`)
		p.see("what both took", `[...document.querySelectorAll(".task")].every(e => (e.open = true, /its node was called (once|\d times), in \d/.test(e.innerText)))`)
	})
}
