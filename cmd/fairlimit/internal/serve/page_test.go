package serve

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const evil = `<img src=x onerror="document.title='evil'">`

func TestThePageDrawsTheLine(t *testing.T) {
	s := started(t, "tcp", func(c *Config) {
		c.Quotas = map[string]Quotas{
			"tax": quotas("2/1m 100/1h"), "other": quotas("1/1h; tokens 500/1h"), evil: quotas("1/1s"),
		}
	})
	for range 2 {
		require.Equal(t, 200, s.do("POST", "/v1/queues/tax/turn").status)
	}
	require.Equal(t, 200, s.do("POST", "/v1/queues/tax/reserve?flow=billing&weight=3").status)
	for range 5 { // at 1, 2 and 3 minutes
		require.Equal(t, 200, s.do("POST", "/v1/queues/tax/reserve").status)
	}
	require.Equal(t, 409, s.do("POST", "/v1/queues/tax/turn?timeout=1s").status)
	require.Equal(t, 200, s.do("POST", "/v1/queues/other/turn?tokens=200").status)
	require.Equal(t, 200, s.do("POST", "/v1/queues/other/reserve").status)
	require.Zero(t, s.tokensOf("other").Available, "a call stands ahead")
	b := openTab(t, s.url+"/")
	b.until(`document.querySelectorAll('section .head').length === 3 &&
		[...document.querySelectorAll('section .head')].every(p => p.textContent.includes('queued'))`)
	const tax = `document.querySelector('section[aria-label=tax]')`
	text := func(selector string) string {
		return b.eval(tax + `.querySelector('` + selector + `').textContent`).(string)
	}
	require.Regexp(t, `^2/1m, 100/1h · 6 queued · next free in \d min · paused: no · 0 wait in this server$`,
		text(".head"))
	require.Equal(t, "tax", text("h2"))
	require.Regexp(t, `^\w+3\d+$`, text(".flows tr:nth-child(2)"), "the id, the weight, and what is ahead")
	require.Contains(t, text(".bars"), "2 of 100 calls used in 1.0 h, 6 ahead")
	require.Contains(t, b.eval(`document.querySelector('section[aria-label=other] .bars').textContent`),
		"200 of 500 tokens used in 1.0 h")
	require.Contains(t, b.eval(`(box => {
		drawHistory(box, { at_ms: 0, history: [{ minute: 0, turns: 1, waited_ms: 0, longest_ms: 0, refused: 0, too_many: 0, failed: 0 }] });
		return box.textContent;
	})(make('div'))`), "1 turn, mean wait 0 ms, longest 0 ms")
	require.Equal(t, "calls", text(".used"))
	const other = `document.querySelector('section[aria-label=other] .used')`
	require.Equal(t, "callstokens", b.eval(other+`.textContent`), "a row for each unit")
	require.Equal(t, true, b.eval(`[...`+other+`.querySelectorAll('.share')].slice(64).some(r => r.height.baseVal.value > 6)`))
	require.Contains(t, text("div:last-child"), "2 turns, mean wait ")
	require.Contains(t, text("div:last-child"), "1 refused (409), 0 too many (429), 0 failed (503)")
	require.GreaterOrEqual(t, b.eval(tax+`.querySelectorAll('.line circle.turn').length`), 3.0)
	require.Equal(t, 1.0, b.eval(tax+`.querySelectorAll('.line .now').length`))
	const at = tax + `.querySelector('.moves').getAttribute('transform')`
	b.until(at + ` && (window.first ??= ` + at + `) !== ` + at)

	require.NoError(t, s.queues.peek("tax").Pause(t.Context(), time.Hour))
	b.until(tax + `.querySelector('.head').textContent.includes('paused: for ') && ` +
		tax + `.querySelector('.line .pause')`)
	require.Equal(t, "fairlimit", b.eval(`document.title`), "a name is a text")
	require.Equal(t, 0.0, b.eval(`document.images.length`))
	require.Empty(t, b.logged, "nothing was against the security policy")
}

func TestThePageFitsAPhoneAndGoesByKeyboard(t *testing.T) {
	s := started(t, "tcp", func(c *Config) {
		c.Quotas[strings.Repeat("n", 300)] = quotas("1/1s")
	})
	s.do("POST", "/v1/queues/fast/turn")
	b := openTab(t, "about:blank")
	b.call("Emulation.setDeviceMetricsOverride",
		map[string]any{"width": 400, "height": 800, "deviceScaleFactor": 1, "mobile": true}, nil)
	b.call("Page.navigate", map[string]any{"url": s.url + "/"}, nil)
	b.until(`document.querySelectorAll('section .line').length === 3 &&
		[...document.querySelectorAll('section .line')].every(line => line.textContent.includes('now'))`)
	require.LessOrEqual(t, b.eval(`document.documentElement.scrollWidth`), 400.0)

	light := b.eval(`getComputedStyle(document.body).backgroundColor`)
	b.call("Emulation.setEmulatedMedia",
		map[string]any{"features": []any{map[string]any{"name": "prefers-color-scheme", "value": "dark"}}}, nil)
	require.NotEqual(t, light, b.eval(`getComputedStyle(document.body).backgroundColor`))

	b.press("Tab")
	require.Equal(t, "BUTTON fast", b.eval(`document.activeElement.tagName + ' ' + document.activeElement.textContent`))
	b.press("Enter")
	b.until(`!document.querySelector('section[aria-label=fast]') &&
		document.activeElement.getAttribute('aria-pressed') === 'false'`)
	b.press("Enter")
	b.until(`document.querySelector('section[aria-label=fast] .line text')`)
}

func TestThePageAsksForTheToken(t *testing.T) {
	s := started(t, "tcp", func(c *Config) { c.Token = "s3cret" })
	b := openTab(t, s.url+"/")
	b.until(`!document.getElementById('login').hidden`)
	b.eval(`document.getElementById('token').value = 's3cret'; document.querySelector('#login button').click()`)
	b.until(`document.querySelectorAll('section .line text').length > 0 && document.getElementById('login').hidden`)
}
