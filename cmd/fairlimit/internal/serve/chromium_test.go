package serve

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// tab is a page in a headless Chromium, driven over its DevTools protocol.
type tab struct {
	t       *testing.T
	to      *os.File
	session string

	mu      sync.Mutex
	last    int
	answers map[int]chan json.RawMessage
	logged  []string // what the browser complained of, such as its security policy
}

func chromium(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("this test needs Chromium")
	return ""
}

// openTab opens a page in a browser that ends with the test.
func openTab(t *testing.T, url string) *tab {
	t.Helper()
	theirs, to, err := os.Pipe()
	require.NoError(t, err)
	from, theirOut, err := os.Pipe()
	require.NoError(t, err)
	cmd := exec.Command(chromium(t), "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
		"--no-first-run", "--user-data-dir="+t.TempDir(), "--remote-debugging-pipe", "about:blank")
	cmd.ExtraFiles = []*os.File{theirs, theirOut}
	require.NoError(t, cmd.Start())
	b := &tab{t: t, to: to, answers: map[int]chan json.RawMessage{}}
	t.Cleanup(func() {
		b.session = ""
		_ = b.send("Browser.close", nil)
		_ = cmd.Wait()
	})
	_ = theirs.Close()
	_ = theirOut.Close()
	go b.read(from)

	var target struct{ TargetID string }
	b.call("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var attached struct{ SessionID string }
	b.call("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	b.session = attached.SessionID
	b.call("Log.enable", nil, nil)
	b.call("Runtime.enable", nil, nil)
	b.call("Page.enable", nil, nil)
	b.call("Page.navigate", map[string]any{"url": url}, nil)
	return b
}

func (b *tab) read(from *os.File) {
	for r := bufio.NewReader(from); ; {
		text, err := r.ReadString(0)
		if err != nil {
			return
		}
		var message struct {
			ID     int
			Method string
			Result json.RawMessage
			Error  json.RawMessage
		}
		_ = json.Unmarshal([]byte(strings.TrimSuffix(text, "\x00")), &message)
		b.mu.Lock()
		if answer := b.answers[message.ID]; answer != nil {
			answer <- append(message.Result, message.Error...)
		}
		complaint := message.Method == "Log.entryAdded" && !strings.Contains(text, `"level":"verbose"`)
		if complaint || message.Method == "Runtime.exceptionThrown" {
			b.logged = append(b.logged, text)
		}
		b.mu.Unlock()
	}
}

// send returns where the answer will be.
func (b *tab) send(method string, params any) chan json.RawMessage {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last++
	answer := make(chan json.RawMessage, 1)
	b.answers[b.last] = answer
	message := map[string]any{"id": b.last, "method": method}
	if params != nil {
		message["params"] = params
	}
	if b.session != "" {
		message["sessionId"] = b.session
	}
	text, _ := json.Marshal(message)
	_, _ = b.to.Write(append(text, 0))
	return answer
}

func (b *tab) call(method string, params, into any) {
	b.t.Helper()
	answer := <-b.send(method, params)
	if into != nil {
		require.NoError(b.t, json.Unmarshal(answer, into), "%s: %s", method, answer)
	}
}

// until waits until an expression is true, which is looked at whenever the page
// changes.
func (b *tab) until(condition string) {
	b.t.Helper()
	require.Equal(b.t, true, b.eval(`new Promise(done => {
		const look = () => { try { return !!(`+condition+`) } catch { return false } };
		const end = (seen) => { watcher.disconnect(); clearTimeout(late); done(seen) };
		const watcher = new MutationObserver(() => { if (look()) end(true) });
		const late = setTimeout(() => end(document.body ? document.body.innerText : 'no page'), 120000);
		watcher.observe(document, { subtree: true, childList: true, attributes: true, characterData: true });
		if (look()) end(true);
	})`), condition)
}

// eval is the value of an expression.
func (b *tab) eval(expression string) any {
	b.t.Helper()
	var answer struct {
		Result           struct{ Value any }
		ExceptionDetails json.RawMessage
	}
	b.call("Runtime.evaluate",
		map[string]any{"expression": expression, "awaitPromise": true, "returnByValue": true}, &answer)
	require.Empty(b.t, answer.ExceptionDetails, expression)
	return answer.Result.Value
}

func (b *tab) press(key string) {
	for _, kind := range []string{"keyDown", "keyUp"} {
		params := map[string]any{"type": kind, "key": key, "code": key}
		if key == "Enter" && kind == "keyDown" {
			params["text"], params["windowsVirtualKeyCode"] = "\r", 13
		}
		if key == "Tab" {
			params["windowsVirtualKeyCode"] = 9
		}
		b.call("Input.dispatchKeyEvent", params, nil)
	}
}
