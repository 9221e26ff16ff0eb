package genai

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"net/http"
	"time"

	"google.golang.org/genai"

	"github.com/stele-go/stele/agent/model"
	"github.com/stele-go/stele/base/silence"
	"github.com/stele-go/stele/message"
)

// provider is the name of the provider in the metadata of answers.
const provider = "google_genai"

// silent is how long a model may say nothing; tests have less time.
var silent = model.Silence

// Options are options of a Model.
type Options struct {
	// Model is the name of the model.
	Model string
	// Key is the key; empty is that of the environment, GEMINI_API_KEY or GOOGLE_API_KEY.
	Key string
	// BaseURL is the address of the server; empty is Google's.
	BaseURL string
	// Settings are fields of the configuration of every request, under the names of Gemini's
	// JSON, such as "temperature" and "thinkingConfig"; those of a request come before them. A
	// field that is not known is ignored.
	Settings map[string]any
	// Retry says how a call is tried again.
	Retry model.Retry
	// Profile is what the model can do.
	Profile model.Profile
	// Whole requests whole answers, not streams. An answer is then one chunk.
	Whole bool
	// Client are further options of the client, such as a project of Vertex AI. Key and BaseURL
	// come before it.
	Client genai.ClientConfig
}

// Model is a chat model. It is safe for concurrent use.
type Model struct {
	opts   Options
	client *genai.Client
}

// New makes a model. ctx is for finding the credentials of Vertex AI. The error is model.ErrRequest
// for options without a model, with a negative delay, or that the client refuses.
func New(ctx context.Context, o Options) (*Model, error) {
	if o.Model == "" {
		return nil, fmt.Errorf("%w: no model is named", model.ErrRequest)
	}
	if err := o.Retry.Check(); err != nil {
		return nil, err
	}
	config := o.Client
	if o.Key != "" {
		config.APIKey = o.Key
	}
	if o.BaseURL != "" {
		config.HTTPOptions.BaseURL = o.BaseURL
	}
	config.HTTPOptions.RetryOptions = nil // model.Retry does it
	given := config.HTTPClient != nil
	if given {
		own := *config.HTTPClient
		config.HTTPClient = &own
	}
	client, err := genai.NewClient(ctx, &config)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", model.ErrRequest, err)
	}
	base := config.HTTPClient.Transport
	if !given {
		base = silence.Transport(base, silent)
	}
	config.HTTPClient.Transport = watcher{base}
	return &Model{o, client}, nil
}

// Profile implements model.Profiled.
func (m *Model) Profile() model.Profile {
	p := m.opts.Profile
	p.Provider = cmp.Or(p.Provider, provider)
	return p
}

// Stream implements model.Model. The errors are model.ErrRequest and *model.ProviderError.
func (m *Model) Stream(ctx context.Context, r model.Request) iter.Seq2[message.Chunk, error] {
	system, contents, err := convert(r.Messages, m.opts.Model)
	return m.opts.Retry.Stream(ctx, func(yield func(message.Chunk, error) bool) {
		config, wrong := m.config(r) // for each call: the client changes it
		if wrong = errors.Join(err, wrong); wrong != nil {
			yield(message.Chunk{}, wrong)
			return
		}
		config.SystemInstruction = system
		m.stream(ctx, contents, config, yield)
	})
}

// config is the configuration of a request.
func (m *Model) config(r model.Request) (*genai.GenerateContentConfig, error) {
	config := &genai.GenerateContentConfig{}
	settings := maps.Clone(m.opts.Settings)
	if settings == nil {
		settings = map[string]any{}
	}
	maps.Copy(settings, r.Settings)
	text, err := json.Marshal(settings)
	if err == nil {
		err = json.Unmarshal(text, config)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: the settings: %w", model.ErrRequest, err)
	}
	var names []string
	var functions []*genai.FunctionDeclaration
	for _, t := range r.Tools {
		f := &genai.FunctionDeclaration{Name: t.Name, Description: t.Description}
		if t.Parameters != nil {
			f.ParametersJsonSchema = t.Parameters
		}
		functions, names = append(functions, f), append(names, t.Name)
	}
	if functions != nil {
		config.Tools = append(config.Tools, &genai.Tool{FunctionDeclarations: functions})
	}
	if r.ToolChoice != "" {
		if r.ToolChoice != model.ToolAny {
			names = []string{r.ToolChoice}
		}
		if config.ToolConfig == nil {
			config.ToolConfig = &genai.ToolConfig{}
		}
		config.ToolConfig.FunctionCallingConfig = &genai.FunctionCallingConfig{Mode: genai.FunctionCallingConfigModeAny, AllowedFunctionNames: names}
	}
	if r.Format != nil {
		config.ResponseMIMEType, config.ResponseJsonSchema = "application/json", r.Format.Schema
	}
	return config, nil
}

// stream hands on the parts of an answer.
func (m *Model) stream(ctx context.Context, contents []*genai.Content, config *genai.GenerateContentConfig, yield func(message.Chunk, error) bool) {
	var seen sight
	ctx = context.WithValue(ctx, sightKey{}, &seen)
	a := answer{model: m.opts.Model}
	next, stop := iter.Pull2(m.responses(ctx, contents, config))
	defer stop()
	for {
		res, ok, err := pull(next)
		if !ok && err == nil {
			break
		}
		var c message.Chunk
		said := false
		if err == nil {
			c, said, err = a.read(res)
		}
		if err != nil {
			yield(message.Chunk{}, failure(err, &seen))
			return
		}
		if said && !yield(c, nil) {
			return
		}
	}
	if !a.ended {
		yield(message.Chunk{}, model.Broken(provider, io.ErrUnexpectedEOF))
		return
	}
	yield(a.last(), nil)
}

// responses yields the parts of an answer, or the whole answer as one.
func (m *Model) responses(ctx context.Context, contents []*genai.Content,
	config *genai.GenerateContentConfig) iter.Seq2[*genai.GenerateContentResponse, error] {
	if !m.opts.Whole {
		return m.client.Models.GenerateContentStream(ctx, m.opts.Model, contents, config)
	}
	return func(yield func(*genai.GenerateContentResponse, error) bool) {
		yield(m.client.Models.GenerateContent(ctx, m.opts.Model, contents, config))
	}
}

// pull returns the next part of an answer; ok is false if there is none. The library panics on JSON of
// the wrong shape; here that is an error. Nothing but the library runs within, so that no panic of
// whoever reads the stream is lost.
func pull(next func() (*genai.GenerateContentResponse, error, bool)) (res *genai.GenerateContentResponse, ok bool, err error) {
	defer func() {
		if p := recover(); p != nil {
			res, ok = nil, false
			err = &model.ProviderError{Provider: provider, Message: fmt.Sprintf("the answer cannot be read: %v", p)}
		}
	}()
	res, err, ok = next()
	if ok && err == nil && res == nil {
		err = model.Broken(provider, io.ErrUnexpectedEOF)
	}
	return res, ok, err
}

// watcher is the transport of a client. The library tells neither whether it sent a request, nor the
// headers of a refusal, which say when to try again; the watcher notes both in the sight of the
// request's context.
type watcher struct{ base http.RoundTripper }

type sightKey struct{}

// sight has a watcher's notes about a call.
type sight struct {
	sent   bool
	status int
	header http.Header
}

// RoundTrip implements http.RoundTripper.
func (w watcher) RoundTrip(r *http.Request) (*http.Response, error) {
	base := w.base
	if base == nil {
		base = http.DefaultTransport
	}
	seen, ok := r.Context().Value(sightKey{}).(*sight)
	if !ok {
		return base.RoundTrip(r)
	}
	seen.sent = true
	res, err := base.RoundTrip(r)
	if err == nil {
		seen.status, seen.header = res.StatusCode, res.Header
	}
	return res, err
}

// failure is the error of a call, typed.
func failure(err error, seen *sight) error {
	var refused genai.APIError
	switch {
	case errors.As(err, &refused):
	case errors.As(err, new(*model.ProviderError)):
		return err
	case !seen.sent:
		return fmt.Errorf("%w: %w", model.ErrRequest, err) // the library found something wrong with it
	default:
		return model.Broken(provider, err)
	}
	status := refused.Code
	if seen.status >= 400 {
		status = seen.status
	}
	e := model.Refused(provider, status, seen.header, refused.Status, refused.Message, err)
	if seen.status < 400 {
		e.Status = 0 // in the middle of a stream that began well
	}
	for _, d := range refused.Details {
		text, _ := d["retryDelay"].(string)
		if after, err := time.ParseDuration(text); err == nil && e.After == 0 {
			e.After = max(after, 0)
		}
	}
	return e
}
