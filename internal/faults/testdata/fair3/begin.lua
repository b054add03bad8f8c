local function begin(queue, returns)
  local touched = false
  queue.now = server + queue.offset
  if queue.now < queue.clock then -- the server's clock has gone back: carry on
    queue.now, queue.offset, touched = queue.clock, queue.clock - server, true
  end
  touched = select_windows(queue, returns) or touched
  return touched, recover(queue)
end
