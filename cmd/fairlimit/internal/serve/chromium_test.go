package serve

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// tab is a page in a headless Chromium, driven over its DevTools protocol.
type tab struct {
	t       *testing.T
	to      *os.File
	from    *bufio.Reader
	session string
	last    int
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
	b := &tab{t: t, to: to, from: bufio.NewReader(from)}
	t.Cleanup(func() {
		b.session = ""
		b.call("Browser.close", nil, nil)
		_ = cmd.Wait()
	})
	_ = theirs.Close()
	_ = theirOut.Close()

	var target struct{ TargetID string }
	b.call("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var attached struct{ SessionID string }
	b.call("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	b.session = attached.SessionID
	for _, domain := range []string{"Log", "Runtime", "Page"} {
		b.call(domain+".enable", nil, nil)
	}
	b.call("Page.navigate", map[string]any{"url": url}, nil)
	return b
}

// call sends a command, and reads up to its result.
func (b *tab) call(method string, params map[string]any, into any) {
	b.t.Helper()
	b.last++
	message := map[string]any{"id": b.last, "method": method, "params": params}
	if b.session != "" {
		message["sessionId"] = b.session
	}
	text, _ := json.Marshal(message)
	_, _ = b.to.Write(append(text, 0))
	for {
		text, err := b.from.ReadBytes(0)
		require.NoError(b.t, err)
		var got struct {
			ID     int
			Method string
			Result json.RawMessage
		}
		require.NoError(b.t, json.Unmarshal(text[:len(text)-1], &got))
		complaint := got.Method == "Log.entryAdded" && !bytes.Contains(text, []byte(`"level":"verbose"`))
		if complaint || got.Method == "Runtime.exceptionThrown" {
			b.logged = append(b.logged, string(text))
		}
		if got.ID == b.last {
			if into != nil {
				require.NoError(b.t, json.Unmarshal(got.Result, into), "%s: %s", method, text)
			}
			return
		}
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

// press is for Tab and Enter, which needs the text that it types.
func (b *tab) press(key string) {
	code, text := 9, ""
	if key == "Enter" {
		code, text = 13, "\r"
	}
	for _, kind := range []string{"keyDown", "keyUp"} {
		params := map[string]any{"type": kind, "key": key, "code": key, "text": text, "windowsVirtualKeyCode": code}
		b.call("Input.dispatchKeyEvent", params, nil)
		text = ""
	}
}
