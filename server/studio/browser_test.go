package studio

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/audits"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/stele-go/stele/base/port"
)

// STELE_REQUIRE_BROWSER makes a missing browser, or a missing reference server, a failure.
var required = os.Getenv("STELE_REQUIRE_BROWSER") != ""

func missing(t testing.TB, what string) {
	t.Helper()
	if required {
		t.Fatal(what)
	}
	t.Skip(what)
}

func chromium(t testing.TB) string {
	t.Helper()
	for _, name := range []string{os.Getenv("STELE_CHROMIUM"), "chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); name != "" && err == nil {
			return path
		}
	}
	missing(t, "NOT TESTED: the page in a browser. There is no chromium; install it, or name one in STELE_CHROMIUM")
	return ""
}

// tab shows the studio of a server. Whatever its console reports is a failure:
// exceptions, and what the Content-Security-Policy refused.
type tab struct {
	t   testing.TB
	ctx context.Context
	url string

	mu      sync.Mutex
	reports []string
}

func open(t testing.TB, base string) *tab {
	t.Helper()
	opts := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(chromium(t)), chromedp.Flag("no-sandbox", true), chromedp.Flag("disable-gpu", true), chromedp.WindowSize(1280, 800),
		chromedp.Flag("disable-quic", true), chromedp.Flag("lang", "en"))
	alloc, cancelAlloc := chromedp.NewExecAllocator(context.Background(), opts...)
	ctx, cancel := chromedp.NewContext(alloc)
	t.Cleanup(func() { cancel(); cancelAlloc() })
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("the browser does not start: %v", err)
	}
	ctx, cancelTime := context.WithTimeout(ctx, 5*time.Minute)
	t.Cleanup(cancelTime)
	p := &tab{t: t, ctx: ctx, url: base}
	err := chromedp.Listen(ctx, func(ev any) {
		switch ev := ev.(type) {
		case *runtime.EventExceptionThrown:
			p.report("exception: " + quote(ev.ExceptionDetails))
		case *audits.EventIssueAdded:
			if d := ev.Issue.Details.ContentSecurityPolicyIssueDetails; d != nil {
				p.report("refused by the policy: " + d.ViolatedDirective)
			}
		case *runtime.EventConsoleAPICalled:
			if ev.Type == "error" {
				p.report(fmt.Sprintf("console: %v", ev.Args))
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	p.do(func(ctx context.Context, t *chromedp.Target) (chromedp.Void, error) {
		_, err := cdp.Call(ctx, t, audits.Enable, cdp.Empty{})
		return chromedp.Void{}, err
	}, chromedp.Navigate(base+"/"))
	t.Cleanup(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, r := range p.reports {
			t.Error(r)
		}
		if t.Failed() {
			p.save()
		}
	})
	return p
}

func (p *tab) report(what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reports = append(p.reports, what)
}

// save keeps what a failing test saw, where STELE_SCREENSHOTS says.
func (p *tab) save() {
	dir := os.Getenv("STELE_SCREENSHOTS")
	if dir == "" {
		return
	}
	if png, err := chromedp.Run(p.ctx, chromedp.CaptureScreenshot()); err == nil {
		_ = os.WriteFile(filepath.Join(dir, strings.ReplaceAll(p.t.Name(), "/", "_")+".png"), png, 0o644)
	}
}

func (p *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	if err := chromedp.Do(p.ctx, actions...); err != nil {
		p.save()
		p.t.Fatal(err)
	}
}

// show shows a screen by its link.
func (p *tab) show(hash string) {
	p.t.Helper()
	p.do(js(`location.hash = ` + quote(hash)))
}

func quote(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// click clicks the button that says text.
func (p *tab) click(text string) {
	p.t.Helper()
	p.settled()
	p.do(chromedp.Click(fmt.Sprintf(`//button[normalize-space()=%s]`, quote(text))))
}

// submit presses the button that says text in the open dialog.
func (p *tab) submit(text string) {
	p.t.Helper()
	p.do(chromedp.Click(fmt.Sprintf(`//dialog//button[normalize-space()=%s]`, quote(text))))
}

// settled waits until no form is new, or sending: until then it takes no decision.
func (p *tab) settled() {
	p.t.Helper()
	p.see("a form that takes decisions", `!document.querySelector("form[aria-busy=true]")`)
}

func (p *tab) fill(selector, text string) {
	p.t.Helper()
	p.do(chromedp.WaitVisible(chromedp.CSS(selector)), js(fmt.Sprintf(
		`{ const e = document.querySelector(%s); const text = %s; if (e.type === "radio") document.getElementsByName(e.name).forEach(r => r.checked = r.value === text); else e.value = text; e.dispatchEvent(new Event("input", {bubbles: true})); e.dispatchEvent(new Event("change", {bubbles: true})) }`, quote(selector), quote(text))))
}

// key presses a key where the focus is, without the character that chromedp sends behind it, which no
// browser does once the page has taken the key.
func (p *tab) key(key string) {
	p.t.Helper()
	p.do(js(`document.activeElement.dispatchEvent(new KeyboardEvent("keydown", {key: ` + quote(key) + `, bubbles: true, cancelable: true}))`))
}

// see waits until a condition, an expression of the page, is true. One that throws, as before a row is drawn, is not.
func (p *tab) see(what, condition string) {
	p.t.Helper()
	look := func() error {
		_, err := chromedp.Run(p.ctx, chromedp.Poll[bool]("(() => { try { return !!("+condition+") } catch { return false } })()", chromedp.WithPollingTimeout(time.Minute)))
		return err
	}
	err := look()
	// A page that loads itself again ends what was asked of it before.
	for range 5 {
		if err == nil || !slices.ContainsFunc([]string{"Cannot find context", "Execution context was destroyed", "Inspected target navigated"}, func(s string) bool { return strings.Contains(err.Error(), s) }) {
			break
		}
		err = look()
	}
	if err != nil {
		text, _ := chromedp.Run(p.ctx, chromedp.Evaluate[string](`document.body.innerText`))
		p.save()
		p.t.Fatalf("%s: never seen: %v\nThe page says:\n%s", what, err, text)
	}
}

func (p *tab) says(text string) {
	p.t.Helper()
	p.see("the text "+text, `document.body.innerText.includes(`+quote(text)+`)`)
}

// eval fills v with the value of an expression, or of the promise that it is.
func (p *tab) eval(expression string, v any) {
	p.t.Helper()
	data, err := chromedp.Run(p.ctx, chromedp.Evaluate[[]byte](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		p.t.Fatal(err)
	}
	if err := json.Unmarshal(data, v); err != nil {
		p.t.Fatalf("%s: %v", data, err)
	}
}

// js runs a script whose value is of no interest.
func js(script string) chromedp.Action[chromedp.Void] {
	return chromedp.Evaluate[chromedp.Void](script)
}

// backend is a server of LangGraph's API with the graph `mail`.
type backend struct{ url string }

// call asks the server itself, behind the page's back.
func (b backend) call(t *testing.T, method, path string, body, answer any) {
	t.Helper()
	var r io.Reader
	if body != nil {
		r = strings.NewReader(quote(body))
	}
	req, err := http.NewRequest(method, b.url+path, r)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode >= 300 {
		t.Fatalf("%s %s: status %d, %v: %s", method, path, resp.StatusCode, err, data)
	}
	if answer != nil {
		if err := json.Unmarshal(data, answer); err != nil {
			t.Fatal(err)
		}
	}
}

type threadState struct {
	Values struct {
		Messages []map[string]any
		Sent     []string
		Note     string
	}
	Next []string
}

func (b backend) state(t *testing.T, thread string) (s threadState) {
	t.Helper()
	b.call(t, "GET", "/threads/"+url.PathEscape(thread)+"/state", nil, &s)
	return s
}

// thread makes a thread on which the agent has asked its question.
func (b backend) thread(t *testing.T, text string) string {
	t.Helper()
	var made struct {
		ID string `json:"thread_id"`
	}
	b.call(t, "POST", "/threads", map[string]any{"metadata": map[string]any{"user": "ann"}}, &made)
	b.call(t, "POST", "/threads/"+made.ID+"/runs/wait", map[string]any{
		"assistant_id": "mail",
		"input":        map[string]any{"messages": []any{map[string]any{"role": "user", "content": text}}},
	}, nil)
	return made.ID
}

// langgraphDev starts LangGraph's own server, from the Python environment that
// STELE_LANGGRAPH_VENV names; see testdata/langgraph/requirements.txt.
var langgraphDev = sync.OnceValues(func() (backend, error) {
	venv := os.Getenv("STELE_LANGGRAPH_VENV")
	if venv == "" {
		return backend{}, fmt.Errorf("STELE_LANGGRAPH_VENV names no Python environment")
	}
	free, err := port.Free()
	if err != nil {
		return backend{}, err
	}
	dir, err := tempDir()
	if err != nil {
		return backend{}, err
	}
	if err := os.CopyFS(dir, os.DirFS("testdata/langgraph")); err != nil {
		return backend{}, err
	}
	cmd := exec.Command(filepath.Join(venv, "bin", "langgraph"), "dev", "--no-browser", "--no-reload", "--allow-blocking", "--port", fmt.Sprint(free))
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "LANGSMITH_TRACING=false")
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		return backend{}, err
	}
	stops = append(stops, func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	b := backend{fmt.Sprintf("http://127.0.0.1:%d", free)}
	for range 1800 {
		resp, err := http.Get(b.url + "/ok")
		if err == nil {
			resp.Body.Close()
			return b, nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	return backend{}, fmt.Errorf("langgraph dev does not answer: %s", log.String())
})

// stops end what tests share.
var stops []func()

func TestMain(m *testing.M) {
	code := m.Run()
	for _, stop := range slices.Backward(stops) {
		stop()
	}
	os.Exit(code)
}

// onEach runs a test against each server.
func onEach(t *testing.T, fn func(t *testing.T, b backend, base string)) {
	chromium(t)
	t.Run("langgraph", func(t *testing.T) {
		b, err := langgraphDev()
		if err != nil {
			missing(t, "NOT TESTED: the page against LangGraph's own server: "+err.Error())
		}
		fn(t, b, serve(t, b))
	})
	onStele(t, fn)
}

// serve serves the page for a server.
func serve(t *testing.T, b backend) string {
	t.Helper()
	u, err := url.Parse(b.url)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(New(Remote(u, nil), Options{}))
	t.Cleanup(s.Close)
	return s.URL
}

// tempDir is a directory that lives as long as the tests.
func tempDir() (string, error) {
	dir, err := os.MkdirTemp("", "studio-")
	stops = append(stops, func() { _ = os.RemoveAll(dir) })
	return dir, err
}

// emulate is a browser of a person who likes a scheme of colours, and no motion: what is looked at is not on its way.
func emulate(scheme string) chromedp.Action[chromedp.Void] {
	return func(ctx context.Context, t *chromedp.Target) (chromedp.Void, error) {
		_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"}}})
		return chromedp.Void{}, err
	}
}
