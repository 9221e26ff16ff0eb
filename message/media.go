package message

import "strings"

// Media is what a block holds that is no text: an image, a sound, a film, a file. One of URL, Data,
// FileID and Text says what it is.
type Media struct {
	// Kind is "image", "audio", "video" or "file".
	Kind string
	// URL leads to the data. It is no data URL.
	URL string
	// Data is the data in base64.
	Data string
	// FileID names a file that a provider keeps.
	FileID string
	// Text is the content of a file that is plain text.
	Text string
	// MIMEType is the type of the data; empty if it is not known.
	MIMEType string
	// Filename is the name of the file; empty if it has none.
	Filename string
}

// MediaOf reads a block in any of the forms that LangChain has for it: its own, new and old, and
// those of OpenAI and Anthropic. ok is false if it is none of them.
func MediaOf(b Block) (m Media, ok bool) {
	kind := textIn(b, "type")
	switch kind {
	case "image_url":
		m.Kind = "image"
		if m.URL, ok = b["image_url"].(string); !ok {
			inner, _ := b["image_url"].(map[string]any)
			m.URL, ok = inner["url"].(string)
		}
		m.inline()
		return m, ok && m.found()
	case "input_audio":
		inner, _ := b["input_audio"].(map[string]any)
		m = Media{Kind: "audio", Data: textIn(inner, "data"), MIMEType: "audio/" + textIn(inner, "format")}
		return m, m.found()
	case "image", "audio", "video", "file", "document":
	default:
		return m, false
	}
	m.Kind = kind
	if kind == "document" {
		m.Kind = "file"
	}
	if source, ok := b["source"].(map[string]any); ok { // Anthropic's
		m.MIMEType = textIn(source, "media_type")
		switch textIn(source, "type") {
		case "base64":
			m.Data = textIn(source, "data")
		case "text":
			m.Text = textIn(source, "data")
		case "url":
			m.URL = textIn(source, "url")
		case "file":
			m.FileID = textIn(source, "file_id")
		}
		return m, m.found()
	}
	if inner, ok := b["file"].(map[string]any); ok && kind == "file" { // OpenAI's
		m.URL, m.FileID, m.Filename = textIn(inner, "file_data"), textIn(inner, "file_id"), textIn(inner, "filename")
		m.inline()
		return m, m.found()
	}
	m.URL, m.FileID, m.MIMEType = textIn(b, "url"), textIn(b, "file_id"), textIn(b, "mime_type")
	m.Filename = textIn(b, "filename")
	for _, where := range []string{"extras", "metadata"} {
		if more, ok := b[where].(map[string]any); ok && m.Filename == "" {
			m.Filename = textIn(more, "filename")
		}
	}
	m.Data = textIn(b, "base64")
	switch textIn(b, "source_type") {
	case "base64":
		m.Data = textIn(b, "data")
	case "text":
		m.Text = textIn(b, "text")
	case "id":
		m.FileID = textIn(b, "id")
	}
	m.inline()
	return m, m.found()
}

func (m *Media) found() bool { return m.URL != "" || m.Data != "" || m.FileID != "" || m.Text != "" }

// DataURL is the data as a URL, or URL if there is no data.
func (m Media) DataURL() string {
	if m.Data == "" {
		return m.URL
	}
	return "data:" + m.MIMEType + ";base64," + m.Data
}

// inline takes the data out of a data URL in base64.
func (m *Media) inline() {
	rest, ok := strings.CutPrefix(m.URL, "data:")
	if !ok {
		return
	}
	if mime, data, ok := strings.Cut(rest, ";base64,"); ok {
		m.URL, m.MIMEType, m.Data = "", mime, data
	}
}
